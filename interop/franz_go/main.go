// Clients of franz-go, each a subcommand; what they did goes to standard output, one line of JSON each.
//
//	copy    -transactional-id ID -group G -from TOPIC -to TOPIC    copies records in transactions
//	consume -group G -from TOPIC                                    reads as a member of a group
//	share   -group G -from TOPIC                                    works as a member of a share group
//	login                                                           comes in by ways on standard input (login.go)
//
// The first three run until SIGTERM, upon which they commit what they have done and leave the group.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the flags say; not every subcommand uses all.
type settings struct {
	servers, group, protocol, from, to, transactionalID string
	abortEvery                                          int
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("a subcommand is missing: copy, consume, share or login"))
	}
	var given settings
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&given.servers, "servers", "", "host:port,…")
	flags.StringVar(&given.group, "group", "", "the group")
	flags.StringVar(&given.protocol, "protocol", "classic", "classic, or consumer (KIP-848)")
	flags.StringVar(&given.from, "from", "", "the topic to read")
	flags.StringVar(&given.to, "to", "", "the topic to write")
	flags.StringVar(&given.transactionalID, "transactional-id", "", "of the copier")
	flags.IntVar(&given.abortEvery, "abort-every", 5, "abort each so manieth transaction")
	if err := flags.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	run := map[string]func(context.Context, settings) error{
		"copy": copyRecords, "consume": consume, "share": share, "login": login,
	}[os.Args[1]]
	if run == nil {
		fail(fmt.Errorf("there is no subcommand %s", os.Args[1]))
	}
	if err := run(ctx, given); err != nil {
		fail(err)
	}
}

func (given settings) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.servers, ",")...),
		kgo.ConsumerGroup(given.group),
		kgo.ConsumeTopics(given.from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.Balancers(kgo.StickyBalancer()),
	}
	if given.protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	return options
}

// copyRecords copies each record to the partition of the same number. It ends when it cannot know how a transaction
// ended: another process with the same transactional id ends it then.
func copyRecords(ctx context.Context, given settings) error {
	options := append(given.options(),
		kgo.TransactionalID(given.transactionalID),
		kgo.TransactionTimeout(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	for number := 1; ; number++ {
		fetches := session.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			return nil
		}
		complain(fetches)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{Topic: given.to, Partition: record.Partition, Key: record.Key, Value: record.Value}
			session.Produce(ctx, copied, failed.Promise())
		})
		wanted := kgo.TransactionEndTry(failed.Err() == nil && number%given.abortEvery != 0)
		committed, err := session.End(context.Background(), wanted)
		if err != nil {
			return err
		}
		tell(map[string]any{"records": fetches.NumRecords(), "committed": committed})
	}
}

// consume tells of each record that it is given, and commits its offset afterwards.
func consume(ctx context.Context, given settings) error {
	assigned := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			tell(map[string]any{what: partitions[given.from]})
		}
	}
	options := append(given.options(),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(assigned("assigned")),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if err := client.CommitMarkedOffsets(ctx); err != nil {
				fail(err)
			}
			assigned("revoked")(ctx, client, partitions)
		}),
		kgo.OnPartitionsLost(assigned("lost")),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	// Leaving revokes the partitions first, which commits.
	defer client.CloseAllowingRebalance()
	for {
		fetches := client.PollRecords(ctx, 100)
		complain(fetches)
		fetches.EachRecord(func(record *kgo.Record) {
			tell(map[string]any{"partition": record.Partition, "offset": record.Offset, "value": string(record.Value)})
		})
		client.MarkCommitRecords(fetches.Records()...)
		client.AllowRebalance()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// share acknowledges each record for itself, and tells of it twice: when it has decided, and when that is stored.
//
// Records are numbers. At its first delivery a multiple of 7 is released; a multiple of 11 is rejected, and every
// other record accepted.
func share(ctx context.Context, given settings) error {
	var refused atomic.Bool
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.servers, ",")...),
		kgo.ShareGroup(given.group),
		kgo.ConsumeTopics(given.from),
		kgo.ShareMaxRecords(40),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				refused.Store(true)
				fmt.Fprintln(os.Stderr, "not stored:", err)
			}
		}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := beginAtTheFirstRecord(ctx, client, given.group); err != nil {
		return err
	}
	for {
		fetches := client.PollRecords(ctx, 40)
		if ctx.Err() != nil {
			return nil
		}
		complain(fetches)
		var decided []map[string]any
		fetches.EachRecord(func(record *kgo.Record) {
			number, err := strconv.Atoi(string(record.Value))
			if err != nil {
				fail(err)
			}
			status := kgo.AckAccept
			if number%7 == 0 && record.DeliveryCount() == 1 {
				status = kgo.AckRelease
			} else if number%11 == 0 {
				status = kgo.AckReject
			}
			record.Ack(status)
			decided = append(decided, map[string]any{
				"number": number, "count": record.DeliveryCount(), "status": status.String(), "stored": false,
			})
		})
		for _, each := range decided {
			tell(each)
		}
		if err := client.FlushAcks(context.Background()); err != nil {
			return err
		}
		if refused.Swap(false) {
			continue
		}
		for _, each := range decided {
			each["stored"] = true
			tell(each)
		}
	}
}

// beginAtTheFirstRecord sets share.auto.offset.reset of a group.
func beginAtTheFirstRecord(ctx context.Context, client *kgo.Client, group string) error {
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Resources[0].ErrorCode)
}

// complain says what went wrong; the client tries again by itself.
func complain(fetches kgo.Fetches) {
	for _, found := range fetches.Errors() {
		fmt.Fprintf(os.Stderr, "%s-%d: %v\n", found.Topic, found.Partition, found.Err)
	}
}

func tell(what map[string]any) {
	line, err := json.Marshal(what)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
