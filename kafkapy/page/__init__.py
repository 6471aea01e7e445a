"""A page that shows a Kafka cluster in a browser, and is a client of it.

server        the page in threads of this process
application   addresses, forms and errors; `protection` is in front of it
views         what each address shows; `templates` and `static` are how it looks
shown         keys, values and headers as people read them
cluster       what is asked of the cluster
"""
