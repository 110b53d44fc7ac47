import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * A Kafka Streams application for `tools`: a streams group (KIP-1071) that counts the events of a
 * topic by their first letters, with a repartition topic and a changelog. It prints a line once all
 * events are counted and committed, and the group has its description. SIGTERM ends it.
 */
final class Tally {
    private static final String STORE = "tallies";
    private static final int PARTITIONS = 2;
    private static final DescribeStreamsGroupsOptions WITH_DESCRIPTION =
        new DescribeStreamsGroupsOptions().includeTopologyDescription(true);

    private Tally() {}

    public static void main(String[] args) throws Exception {
        String bootstrap = args[1];
        String topic = args[2];
        String application = args[3];
        long events = Long.parseLong(args[4]);
        KafkaStreams streams = new KafkaStreams(topology(topic).build(), config(bootstrap, application));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            while (!isSettled(admin, topic, application, events)) {
                Thread.sleep(100);
            }
        }
        System.out.println("counted " + events);
    }

    private static StreamsBuilder topology(String topic) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic)
            .map((key, value) -> KeyValue.pair(key.substring(0, 1), value))
            .groupByKey(Grouped.as("by-letter"))
            .count(Materialized.as(STORE));
        return builder;
    }

    private static Properties config(String bootstrap, String application) throws Exception {
        Path state = Files.createTempDirectory("tally");
        Properties config = Events.quick(new Properties());
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put("auto.offset.reset", "earliest");
        return config;
    }

    private static boolean isSettled(Admin admin, String topic, String application, long events)
            throws InterruptedException {
        try {
            var described = admin.describeStreamsGroups(List.of(application), WITH_DESCRIPTION);
            var group = described.describedGroups().get(application).get();
            return group.groupState() == GroupState.STABLE
                && group.topologyDescription().isPresent()
                && committed(admin, application, topic) == events
                && committed(admin, application, application + "-by-letter-repartition") == events;
        } catch (ExecutionException notYet) {
            return false;
        }
    }

    private static long committed(Admin admin, String application, String topic)
            throws ExecutionException, InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> offsets =
            admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
        long sum = 0;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            OffsetAndMetadata offset = offsets.get(new TopicPartition(topic, partition));
            sum += offset == null ? 0 : offset.offset();
        }
        return sum;
    }
}
