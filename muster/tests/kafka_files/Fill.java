// Fills a cluster with groups of every kind, and prints the committed offsets of groups. It uses
// Kafka's own clients. `run` and `golden` say how it is used.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Fill {
    static final int AT_ONCE = 500;

    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        switch (words[1]) {
            case "topic" -> topic(words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "commit" -> commit(List.of(words[2]), words[3], Integer.parseInt(words[4]));
            case "many" -> commit(many(Integer.parseInt(words[3])), words[2], 0);
            case "kinds" -> kinds(words[2]);
            case "print" -> print(List.of(words).subList(2, words.length));
            case "print-many" -> print(many(Integer.parseInt(words[2])));
            default -> throw new IllegalArgumentException(words[1]);
        }
        System.out.flush();
        // Live members are left behind, as by a crash.
        Runtime.getRuntime().halt(0);
    }

    static List<String> many(int count) {
        var groups = new ArrayList<String>();
        for (int i = 0; i < count; i++) groups.add("group-" + i);
        return groups;
    }

    /** Creates a topic with this number of records in each partition. */
    static void topic(String name, int partitions, int records) throws Exception {
        try (var admin = admin()) {
            var configs = Map.of("retention.ms", "864000000", "cleanup.policy", "delete");
            var topic = new NewTopic(name, partitions, (short) 1).configs(configs);
            admin.createTopics(List.of(topic)).all().get();
        }
        try (var producer = producer(Map.of())) {
            for (int i = 0; i < records * partitions; i++) {
                producer.send(new ProducerRecord<>(name, i % partitions, "key-" + i, "value-" + i));
            }
        }
    }

    /** Commits a different offset for each group in each of four partitions. */
    static void commit(List<String> groups, String topic, int first) throws Exception {
        try (var admin = admin()) {
            var waiting = new ArrayList<Future<Void>>();
            for (int i = 0; i < groups.size(); i++) {
                var offsets = new TreeMap<TopicPartition, OffsetAndMetadata>(Fill::compare);
                for (int partition = 0; partition <= i % 4; partition++) {
                    var at = new OffsetAndMetadata(first + (i + partition) % 90, "of " + i);
                    offsets.put(new TopicPartition(topic, partition), at);
                }
                waiting.add(admin.alterConsumerGroupOffsets(groups.get(i), offsets).all());
                if (waiting.size() == AT_ONCE) {
                    for (var one : waiting) one.get();
                    waiting.clear();
                }
            }
            for (var one : waiting) one.get();
        }
    }

    /** Makes groups with and without members, transactions, and deletions. */
    static void kinds(String topic) throws Exception {
        for (var protocol : List.of("classic", "consumer")) {
            member(topic, protocol, protocol + "-left").close();
            member(topic, protocol, protocol + "-alive");
        }
        transactions(topic);
        commit(List.of("simple", "deleted"), topic, 7);
        try (var admin = admin()) {
            admin.deleteConsumerGroups(List.of("deleted")).all().get();
            var offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(5),
                new TopicPartition(topic, 1), new OffsetAndMetadata(6));
            admin.alterConsumerGroupOffsets("shorter", offsets).all().get();
            var gone = java.util.Set.of(new TopicPartition(topic, 1));
            admin.deleteConsumerGroupOffsets("shorter", gone).all().get();
            var group = new ConfigResource(ConfigResource.Type.GROUP, "consumer-left");
            var timeout = new ConfigEntry("consumer.session.timeout.ms", "50000");
            var set = new AlterConfigOp(timeout, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        }
    }

    static KafkaConsumer<String, String> member(String topic, String protocol, String group) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("client.id", "client-of-" + group);
        properties.put("group.protocol", protocol);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        int read = 0;
        for (int i = 0; i < 120 && read < 5; i++) read += consumer.poll(Duration.ofMillis(500)).count();
        if (read < 5) throw new IllegalStateException(group + " reads nothing");
        consumer.commitSync();
        return consumer;
    }

    /** Makes a committed, an aborted and an open transaction, each by its own producer. */
    static void transactions(String topic) {
        for (var end : List.of("committed", "aborted", "open")) {
            var producer = producer(Map.of("transactional.id", end));
            producer.initTransactions();
            for (int i = 1; i <= 2; i++) {
                producer.beginTransaction();
                var offset = new OffsetAndMetadata(10 * i, end);
                producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), offset),
                    new ConsumerGroupMetadata("transaction-" + end));
                if (i == 1 || end.equals("committed")) producer.commitTransaction();
                else if (end.equals("aborted")) producer.abortTransaction();
                else producer.flush();
            }
        }
    }

    /** Prints the committed offsets of groups, one per line, in order. */
    static void print(List<String> groups) throws Exception {
        try (var admin = admin()) {
            for (int from = 0; from < groups.size(); from += AT_ONCE) {
                var wanted = new TreeMap<String, ListConsumerGroupOffsetsSpec>();
                for (var group : groups.subList(from, Math.min(from + AT_ONCE, groups.size()))) {
                    wanted.put(group, new ListConsumerGroupOffsetsSpec());
                }
                var all = new TreeMap<>(admin.listConsumerGroupOffsets(wanted).all().get());
                all.forEach((group, offsets) -> {
                    var sorted = new TreeMap<TopicPartition, OffsetAndMetadata>(Fill::compare);
                    sorted.putAll(offsets);
                    sorted.forEach((partition, at) -> System.out.println(
                        group + " " + partition + " " + at.offset() + " " + at.metadata()));
                });
            }
        }
    }

    static int compare(TopicPartition a, TopicPartition b) {
        int topics = a.topic().compareTo(b.topic());
        return topics != 0 ? topics : Integer.compare(a.partition(), b.partition());
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 120000));
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(more);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }
}
