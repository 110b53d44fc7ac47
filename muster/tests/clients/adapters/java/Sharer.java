import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group. It reports the records that it acquires, how it will acknowledge them,
 * and then which acknowledgements the server has confirmed. harness/share.py lists its options.
 *
 * The field `lock` is the duration of the locks in ms, according to the newest answer from which
 * the poll has records. Records of older answers come first, in this poll or in earlier ones.
 */
final class Sharer {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration COMMIT = Duration.ofSeconds(20);
    private static final String MAX_POLL_RECORDS = "50";

    private final Properties config;
    private final String topic;
    private final Set<String> words;
    private final AtomicBoolean leaving = Events.leaving();
    /** The requested acknowledgements, by partition and offset. */
    private final Map<String, String> asked = new HashMap<>();
    private KafkaShareConsumer<byte[], byte[]> consumer;
    /**
     * Whether records of this poll are renewed. False if the poll has records of several brokers:
     * kafka-clients 4.3.0 then never returns the renewed records, and polls without a pause.
     */
    private boolean renews;

    Sharer(Properties config, String topic, String group, String option) {
        this.config = Events.quick(config);
        this.topic = topic;
        words = Set.of(option.split("-"));
        config.put("group.id", group);
        config.put("max.poll.records", MAX_POLL_RECORDS);
        config.put("share.acknowledgement.mode", words.contains("explicit") ? "explicit" : "implicit");
        config.put("share.acquire.mode",
            words.contains("record_limit") ? "record_limit" : "batch_optimized");
    }

    void run() {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaShareConsumer<>(config, bytes, bytes);
        consumer.setAcknowledgementCommitCallback(this::answered);
        consumer.subscribe(List.of(topic));
        while (!leaving.get()) {
            try {
                work(consumer.poll(POLL));
            } catch (KafkaException error) {
                Events.emit("notice", Events.error(error));
            }
        }
        consumer.close();
        Events.emit("left", "");
    }

    private void work(ConsumerRecords<byte[], byte[]> records) {
        if (records.isEmpty()) {
            return;
        }
        renews = words.contains("renew") && records.partitions().size() == 1;
        if (words.contains("hold")) {
            hold(records);
        } else {
            acknowledge(records);
        }
    }

    /** Holds the records of this poll until it is time to leave. */
    private void hold(ConsumerRecords<byte[], byte[]> records) {
        say(records, record -> words.contains("renew") ? "renew" : "hold");
        ConsumerRecords<byte[], byte[]> held = records;
        while (!leaving.get()) {
            pause();
            if (words.contains("renew")) {
                held = renewed(held);
            }
        }
        acknowledge(held, record -> "accept");
    }

    private ConsumerRecords<byte[], byte[]> renewed(ConsumerRecords<byte[], byte[]> held) {
        if (held.isEmpty()) {
            return consumer.poll(POLL);
        }
        note(held, record -> "renew");
        consumer.commitSync(COMMIT);
        return consumer.poll(POLL);
    }

    private void acknowledge(ConsumerRecords<byte[], byte[]> records) {
        acknowledge(records, this::verdict);
    }

    private void acknowledge(ConsumerRecords<byte[], byte[]> records, Verdicts verdicts) {
        say(records, verdicts);
        note(records, verdicts);
        if (words.contains("explicit")) {
            consumer.commitSync(COMMIT);
        }
    }

    /** Passes the verdicts to the client in explicit mode. Keeps them until they are confirmed. */
    private void note(ConsumerRecords<byte[], byte[]> records, Verdicts verdicts) {
        for (ConsumerRecord<byte[], byte[]> r : records) {
            String verdict = verdicts.of(r);
            asked.put(place(r.partition(), r.offset()), verdict);
            if (words.contains("explicit")) {
                consumer.acknowledge(r, AcknowledgeType.valueOf(verdict.toUpperCase()));
            }
        }
    }

    /** The verdict on a record, which depends on its id and its delivery count. */
    private String verdict(ConsumerRecord<byte[], byte[]> r) {
        int id = Events.id(r);
        if (!words.contains("explicit")) {
            return "accept";
        }
        if (renews && id % 10 == 3
                && !"renewed".equals(asked.get(place(r.partition(), r.offset())))) {
            return "renew";
        }
        if (id % 10 == 0) {
            return "reject";
        }
        return id % 10 == 1 && r.deliveryCount().get() == 1 || id % 50 == 2 ? "release" : "accept";
    }

    private void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        List<String> places = new ArrayList<>();
        offsets.forEach((partition, all) -> all.forEach(offset -> {
            String place = place(partition.partition(), offset);
            String verdict = asked.remove(place);
            if ("renew".equals(verdict) && error == null) {
                asked.put(place, "renewed");
            } else if (verdict != null) {
                places.add(place);
            }
        }));
        if (!places.isEmpty()) {
            Events.emit(error == null ? "confirmed" : "refused", ",\"records\":" + places
                + (error == null ? "" : Events.error(error)));
        }
    }

    private void say(ConsumerRecords<byte[], byte[]> records, Verdicts verdicts) {
        List<String> all = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            all.add("[" + Events.id(r) + "," + r.partition() + "," + r.offset() + ","
                + r.deliveryCount().get() + ",\"" + verdicts.of(r) + "\"]");
        }
        String lock = consumer.acquisitionLockTimeoutMs().map(ms -> ",\"lock\":" + ms).orElse("");
        Events.emit("acquired", lock + ",\"records\":" + all);
    }

    private static String place(int partition, long offset) {
        return "[" + partition + "," + offset + "]";
    }

    private static void pause() {
        try {
            Thread.sleep(POLL.toMillis());
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private interface Verdicts {
        String of(ConsumerRecord<byte[], byte[]> record);
    }
}
