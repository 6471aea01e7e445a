package org.apache.kafka.common.test;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

import java.lang.reflect.Field;
import java.util.Map;

/**
 * Objects that stand for parts of Apache Kafka's broker, and answer what kafkapy can say from outside.
 *
 * Each other method is NeedsTheInside.
 */
final class Outside {
    /** What a method answers. */
    interface Answer {
        Object to(InvocationOnMock call) throws Throwable;
    }

    private Outside() {
    }

    /** Sets a public field of an object that `of` has made. */
    static void set(Object object, String name, Object value) {
        try {
            Field field = object.getClass().getField(name);
            field.setAccessible(true);
            field.set(object, value);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** An answer with an object that `of` makes when it is first asked for, since that takes long. */
    static Answer part(Class<?> kind, Map<String, Answer> answers) {
        Object[] made = {null};
        return call -> {
            synchronized (made) {
                if (made[0] == null)
                    made[0] = of(kind, answers);
                return made[0];
            }
        };
    }

    /** An object of this class; `answers` has the names of the methods that it answers. */
    static <T> T of(Class<T> kind, Map<String, Answer> answers) {
        return Mockito.mock(kind, call -> {
            String method = call.getMethod().getName();
            if (answers.containsKey(method))
                return answers.get(method).to(call);
            switch (method) {
                case "toString":
                    return kind.getSimpleName() + " of kafkapy";
                case "hashCode":
                    return System.identityHashCode(call.getMock());
                case "equals":
                    return call.getMock() == call.getArgument(0);
                default:
                    throw new NeedsTheInside(kind.getSimpleName() + "." + method);
            }
        });
    }
}
