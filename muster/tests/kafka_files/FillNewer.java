// Like Fill.java, with the newer kinds of groups: streams groups and share groups. It makes two
// groups of each kind: one whose member has left, and one with a live member.

import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

public class FillNewer {
    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        switch (words[1]) {
            case "kinds" -> kinds(words[2], Long.parseLong(words[3]));
            case "print" -> print();
            default -> throw new IllegalArgumentException(words[1]);
        }
        System.out.flush();
        // Live members are left behind, as by a crash.
        Runtime.getRuntime().halt(0);
    }

    static void kinds(String topic, long records) throws Exception {
        for (var end : List.of("left", "alive")) {
            var streams = application(topic, records, "streams-" + end);
            var sharer = sharer(topic, "share-" + end);
            if (end.equals("left")) {
                streams.close(Duration.ofSeconds(30));
                sharer.close();
            }
        }
    }

    /** Counts the records by a part of their keys, with an internal topic and a store. */
    static KafkaStreams application(String topic, long records, String name) throws Exception {
        var builder = new StreamsBuilder();
        builder.<String, String>stream(topic)
            .map((key, value) -> KeyValue.pair(key.substring(key.length() - 1), value))
            .groupByKey(Grouped.as("by-digit"))
            .count(Materialized.as("counts"));
        var config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("fill").toString());
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put("auto.offset.reset", "earliest");
        var streams = new KafkaStreams(builder.build(), config);
        streams.start();
        try (var admin = admin()) {
            while (committed(admin, name, topic) < records) Thread.sleep(100);
        }
        return streams;
    }

    static long committed(Admin admin, String group, String topic) throws Exception {
        try {
            var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            return offsets.entrySet().stream()
                .filter(it -> it.getKey().topic().equals(topic) && it.getValue() != null)
                .mapToLong(it -> it.getValue().offset()).sum();
        } catch (ExecutionException notYet) {
            return 0;
        }
    }

    /** Acknowledges some records of each partition. */
    static KafkaShareConsumer<String, String> sharer(String topic, String group) throws Exception {
        try (var admin = admin()) {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            var earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            var set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        }
        var config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("max.poll.records", "5");
        var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        int read = 0;
        for (int i = 0; i < 240 && read < 20; i++) {
            read += consumer.poll(Duration.ofMillis(500)).count();
            consumer.commitSync();
        }
        if (read < 20) throw new IllegalStateException(group + " reads nothing");
        return consumer;
    }

    /** Prints the groups with their kinds, and the start offsets of share groups. */
    static void print() throws Exception {
        try (var admin = admin()) {
            var groups = new TreeMap<String, String>();
            for (var it : admin.listGroups().all().get()) {
                groups.put(it.groupId(), it.type().map(Object::toString).orElse("") + " " + it.protocol());
            }
            groups.forEach((group, kind) -> System.out.println(group + " " + kind));
            for (var group : List.of("share-left", "share-alive")) {
                var spec = Map.of(group, new ListShareGroupOffsetsSpec());
                var offsets = admin.listShareGroupOffsets(spec).partitionsToOffsetInfo(group).get();
                offsets.entrySet().stream().map(it -> group + " " + it.getKey() + " "
                    + (it.getValue() == null ? "-" : it.getValue().startOffset())).sorted()
                    .forEach(System.out::println);
            }
        }
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 120000));
    }
}
