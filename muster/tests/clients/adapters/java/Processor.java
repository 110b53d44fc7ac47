import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumes records, and produces them to another topic. Each poll is a transaction, which includes
 * its offsets. One transaction in five is aborted, and contains a record that must never be read.
 */
final class Processor {
    private static final int ABORTED_ONE_IN = 5;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final String transactionalId;
    private final String sessionMs;
    private int transactions;

    Processor(
            String bootstrap, String topic, String group, String transactionalId,
            String sessionMs) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
        this.transactionalId = transactionalId;
        this.sessionMs = sessionMs;
    }

    void run() {
        AtomicBoolean leaving = Events.leaving();
        while (!leaving.get()) {
            try (KafkaProducer<byte[], byte[]> producer = producer();
                    KafkaConsumer<byte[], byte[]> consumer = Client.consumer(consumerConfig())) {
                producer.initTransactions();
                consumer.subscribe(List.of(topic));
                while (!leaving.get()) {
                    process(producer, consumer);
                }
            } catch (KafkaException error) {
                Events.emit("notice", Events.error(error));
            }
        }
        Events.emit("left", "");
    }

    /**
     * An error ends the session. When the next session begins, the open transaction is aborted. To
     * abort and continue with the same producer would lose records: kafka-clients 4.3.0 keeps
     * offsets that it could not send (TransactionManager.pendingTxnOffsetCommits), and sends them
     * with those of the next transaction.
     */
    private void process(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
            return;
        }
        boolean aborted = ++transactions % ABORTED_ONE_IN == 0;
        producer.beginTransaction();
        send(producer, consumer, records, aborted);
        if (aborted) {
            producer.abortTransaction();
            Events.emit("aborted", "");
            rewind(consumer);
        } else {
            producer.commitTransaction();
            Events.emit("transacted", Events.offsets(ends(records)));
        }
    }

    private void send(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer,
            ConsumerRecords<byte[], byte[]> records, boolean aborted) {
        for (ConsumerRecord<byte[], byte[]> r : records) {
            producer.send(new ProducerRecord<>(output(topic), r.key(), r.value()));
        }
        if (aborted) {
            byte[] key = Events.keyOf(-transactions);
            producer.send(new ProducerRecord<>(output(topic), key, Events.valueOf(-transactions)));
        }
        producer.sendOffsetsToTransaction(ends(records), consumer.groupMetadata());
        producer.flush();
    }

    private static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata committed = found.get(partition);
            if (committed == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, committed);
            }
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> ends(
            ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            ends.put(new TopicPartition(r.topic(), r.partition()),
                new OffsetAndMetadata(r.offset() + 1));
        }
        return ends;
    }

    static String output(String topic) {
        return topic + "-output";
    }

    private KafkaProducer<byte[], byte[]> producer() {
        Properties config = common();
        config.put("transactional.id", transactionalId);
        config.put("linger.ms", "0");
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private Properties consumerConfig() {
        Properties config = common();
        config.put("group.id", group);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("isolation.level", "read_committed");
        config.put("session.timeout.ms", sessionMs);
        config.put("heartbeat.interval.ms", "300");
        config.put("max.poll.records", "100");
        return config;
    }

    private Properties common() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        return Events.quick(config);
    }
}
