package org.apache.kafka.common.test;

/**
 * A test asks for a part of Apache Kafka's broker, which another broker does not have.
 *
 * It is an Error, so that tests which wait for a condition do not try again.
 */
public class NeedsTheInside extends Error {
    public NeedsTheInside(String part) {
        super("the test needs the inside of Apache Kafka: " + part);
    }
}
