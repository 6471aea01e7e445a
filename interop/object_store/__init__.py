"""Backups in an object store that is not ours: moto's server of S3, by s3fs."""
