package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const loginSeconds = 20

// A way to come in, one line of JSON. Empty fields are not used.
type way struct {
	Topic, Servers                string
	Mechanism, Username, Password string
	// The username is the id of a delegation token, and the password its HMAC in base 64.
	IsToken bool
	// PEM files: the authority that is trusted, and a certificate with its key. Version is TLSv1.2 or TLSv1.3.
	Authority, Certificate, Version string
}

// login reads ways on standard input. By each it writes a record and reads it, and tells what it has read, or why
// it did not come in.
func login(ctx context.Context, _ settings) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var given way
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			return err
		}
		value, err := given.roundTrip(ctx)
		told := map[string]any{"topic": given.Topic, "read": value}
		if err != nil {
			told["error"] = err.Error()
		}
		tell(told)
	}
	return lines.Err()
}

func (given way) roundTrip(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, loginSeconds*time.Second)
	defer cancel()
	options, err := given.options()
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: given.Topic, Value: []byte("franz-go")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return "", err
	}
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	for _, read := range fetches.Records() {
		return string(read.Value), nil
	}
	return "", errors.New("nothing was read")
}

func (given way) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(given.Servers),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: {0: kgo.NewOffset().AtStart()}}),
	}
	if given.Authority != "" {
		config, err := given.encryption()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := given.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (given way) encryption() (*tls.Config, error) {
	authority, err := os.ReadFile(given.Authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if given.Certificate != "" {
		certificate, err := tls.LoadX509KeyPair(given.Certificate, given.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if given.Version != "" {
		version := map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}[given.Version]
		config.MinVersion, config.MaxVersion = version, version
	}
	return config, nil
}

func (given way) mechanism() sasl.Mechanism {
	byScram := scram.Auth{User: given.Username, Pass: given.Password, IsToken: given.IsToken}
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.Username, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return byScram.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return byScram.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.Password}.AsMechanism()
	}
	return nil
}
