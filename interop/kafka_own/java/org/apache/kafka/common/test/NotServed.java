package org.apache.kafka.common.test;

/** A test asks for something that kafkapy does not have, such as SASL. */
public class NotServed extends Error {
    public NotServed(String what) {
        super("kafkapy does not have " + what);
    }
}
