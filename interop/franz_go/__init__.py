"""franz-go: transactions and both group protocols, by a program of the suite and by franz-go's own tests."""
