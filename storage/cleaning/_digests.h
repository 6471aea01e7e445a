/* The two digests of compaction: MD5 of a key (RFC 1321), and CRC-32C of a batch (RFC 3720, appendix B.4). */

#ifndef KAFKAPY_DIGESTS_H
#define KAFKAPY_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

void md5(const uint8_t *data, size_t size, uint8_t digest[16]);

/* Called once, before any crc32c(). */
void crc_prepare(void);

uint32_t crc32c(const uint8_t *data, size_t size);

#endif
