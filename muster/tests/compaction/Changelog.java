// Writes the same records to a compacted topic of any server, and prints the records that are left.
// It uses Kafka's own clients. `run` says how it is used.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Changelog {
    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        switch (words[1]) {
            case "topic" -> topic(words[2], List.of(words).subList(3, words.length));
            case "write" -> write(words[2], words[3], Long.parseLong(words[4]), Integer.parseInt(words[5]));
            case "transactions" -> transactions(words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
            case "updates" -> updates(words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "read" -> read(words[2], true);
            case "count" -> read(words[2], false);
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    static void topic(String name, List<String> pairs) throws Exception {
        Map<String, String> configs = new java.util.HashMap<>(Map.of("cleanup.policy", "compact"));
        for (String pair : pairs) {
            configs.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1).configs(configs))).all().get();
        }
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> configs) {
        Properties properties = new Properties();
        properties.putAll(Map.of("bootstrap.servers", bootstrap, "batch.size", "200000",
            "key.serializer", ByteArraySerializer.class.getName(), "value.serializer", ByteArraySerializer.class.getName()));
        properties.putAll(configs);
        return new KafkaProducer<>(properties);
    }

    // Batches end at given records, so that segments end at the same places in all servers.
    static void write(String topic, String codec, long seed, int batches) throws Exception {
        Random random = new Random(seed);
        try (var producer = producer(Map.of("compression.type", codec, "linger.ms", "60000"))) {
            for (int batch = 0; batch < batches; batch++) {
                send(producer, topic, random, 1 + random.nextInt(40));
                producer.flush();
            }
            fillers(producer, topic);
        }
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, Random random, int records) {
        for (int record = 0; record < records; record++) {
            byte[] key = ("key " + random.nextInt(200)).getBytes();
            byte[] value = new byte[random.nextInt(1500)];
            random.nextBytes(value);
            boolean isTombstone = random.nextInt(6) == 0;
            long time = 1_760_000_000_000L + random.nextInt(100_000);
            producer.send(new ProducerRecord<>(topic, 0, time, key, isTombstone ? null : value));
        }
    }

    // Records that end the segment with all earlier records.
    static void fillers(KafkaProducer<byte[], byte[]> producer, String topic) {
        Random random = new Random(1);
        for (int number = 0; number < 12; number++) {
            byte[] value = new byte[100_000];
            random.nextBytes(value);
            producer.send(new ProducerRecord<>(topic, 0, 1_760_000_100_000L, "filler".getBytes(), value));
            producer.flush();
        }
    }

    static void transactions(String topic, long seed, int count) throws Exception {
        Random random = new Random(seed);
        Map<String, String> configs = Map.of("transactional.id", topic, "linger.ms", "60000");
        try (var producer = producer(configs)) {
            producer.initTransactions();
            for (int transaction = 0; transaction < count; transaction++) {
                producer.beginTransaction();
                for (int batch = random.nextInt(3); batch >= 0; batch--) {
                    send(producer, topic, random, 1 + random.nextInt(30));
                    producer.flush();
                }
                if (random.nextInt(3) == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        try (var producer = producer(Map.of("linger.ms", "60000"))) {
            fillers(producer, topic);
        }
    }

    // A changelog: updates of a few keys, as fast as possible.
    static void updates(String topic, int count, int keys) throws Exception {
        Random random = new Random(1);
        byte[] value = new byte[100];
        random.nextBytes(value);
        List<Future<?>> last = new ArrayList<>();
        try (var producer = producer(Map.of("linger.ms", "5"))) {
            for (int update = 0; update < count; update++) {
                byte[] key = String.format("key-%010d", random.nextInt(keys)).getBytes();
                Future<?> sent = producer.send(new ProducerRecord<>(topic, 0, key, value));
                if (update == count - 1) {
                    last.add(sent);
                }
            }
            for (Future<?> sent : last) {
                sent.get();
            }
        }
    }

    static void read(String topic, boolean prints) {
        Properties properties = new Properties();
        properties.putAll(Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed",
            "key.deserializer", ByteArrayDeserializer.class.getName(), "value.deserializer", ByteArrayDeserializer.class.getName()));
        TopicPartition partition = new TopicPartition(topic, 0);
        StringBuilder out = new StringBuilder();
        long count = 0, began = System.nanoTime();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seekToBeginning(List.of(partition));
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    count++;
                    if (prints) {
                        int hash = java.util.Arrays.hashCode(record.value());
                        String key = new String(record.key());
                        String value = record.value() == null ? "none" : String.valueOf(hash);
                        out.append(record.offset() + "\t" + record.timestamp() + "\t" + key + "\t" + value + "\n");
                    }
                }
            }
            out.append("end\t" + end + "\n");
        }
        if (!prints) {
            out.append(count + " records in " + (System.nanoTime() - began) / 1_000_000 + " ms\n");
        }
        System.out.print(out);
    }
}
