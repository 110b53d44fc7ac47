import static org.apache.kafka.streams.CloseOptions.GroupMembershipOperation.LEAVE_GROUP;
import static org.apache.kafka.streams.CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * A Kafka Streams application that counts the records of each group of ids, with a repartition
 * topic, and a store with its changelog. Each count is written as a record, whose id is made of the
 * group and the count. The property processing.guarantee sets the guarantee, and group.protocol
 * chooses a classic or a streams group (KIP-1071). With the property joins each input is also joined
 * with itself in a window, through two more repartition topics. With copies it is also copied.
 *
 * <p>Commands: "owners" prints the instance that counts each group of ids, and its standbys, as the
 * application knows them from the group. "own" prints the groups of ids that this instance counts,
 * and "counts" the counts in its own stores. The property application.server names the instance.
 * "remain" ends the instance but not its membership, which it has by the property group.instance.id;
 * any other line ends both.
 */
final class Counting {
    private static final int GROUPS = 50;
    private static final int COUNTS = 1_000_000;
    private static final String STORE = "counts";
    private static final String BY_GROUP = "by-group";
    /** The suffix of the repartition topic whose tasks count. */
    private static final String COUNTED = BY_GROUP + "-repartition";

    private final String protocol = System.getProperty("group.protocol", "classic");
    private final String bootstrap;
    private final String topic;
    private final String application;
    private final String stateDirectory;
    private final String sessionMs;
    private volatile boolean remains;

    private Counting(String[] args) {
        bootstrap = args[1];
        topic = args[2];
        application = args[3];
        stateDirectory = args[4];
        sessionMs = args[5];
    }

    public static void main(String[] args) throws Exception {
        new Counting(args).run();
    }

    private void run() throws InterruptedException, IOException {
        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(topology(), config());
        streams.setUncaughtExceptionHandler(error -> {
            Events.emit("notice", Events.error((Exception) error));
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> {
            Events.emit("state", ",\"state\":\"" + now + "\"");
            if (now.hasCompletedShutdown()) {
                ended.countDown();
            }
        });
        AtomicBoolean leaving = Events.leaving(question -> answer(streams, question));
        streams.start();
        Events.emit("version", ",\"version\":\"" + version() + "\"");
        while (!leaving.get() && ended.getCount() > 0) {
            Thread.sleep(50);
        }
        CloseOptions leave = CloseOptions.timeout(Duration.ofSeconds(20))
            .withGroupMembershipOperation(remains ? REMAIN_IN_GROUP : LEAVE_GROUP);
        if (!streams.close(leave) || !leaving.get()) {
            System.exit(1);
        }
        Events.emit("left", "");
    }

    /** The version of Kafka Streams. */
    private static String version() throws IOException {
        Properties versions = new Properties();
        versions.load(KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties"));
        return versions.getProperty("version");
    }

    private boolean answer(KafkaStreams streams, String question) {
        try {
            switch (question) {
                case "owners" -> Events.emit("owners", ",\"owners\":" + owners(streams));
                case "own" -> Events.emit("own", ",\"own\":" + own(streams));
                case "counts" -> Events.emit("counts", ",\"counts\":" + counts(streams));
                default -> {
                    remains = question.equals("remain");
                    return false;
                }
            }
        } catch (InvalidStateStoreException | IllegalStateException rebalancing) {
            Events.emit(question, ",\"" + question + "\":null");
        }
        return true;
    }

    /** For each group of ids its owner and its standbys. */
    private static List<String> owners(KafkaStreams streams) {
        List<String> all = new ArrayList<>();
        for (int group = 0; group < GROUPS; group++) {
            KeyQueryMetadata found =
                streams.queryMetadataForKey(STORE, group, Serdes.Integer().serializer());
            List<String> standbys = found.standbyHosts().stream().map(Counting::quoted).toList();
            all.add("[" + group + "," + quoted(found.activeHost()) + "," + standbys + "]");
        }
        return all;
    }

    private static List<Integer> own(KafkaStreams streams) {
        Set<Integer> partitions = streams.metadataForLocalThreads().stream()
            .flatMap(thread -> thread.activeTasks().stream())
            .flatMap(task -> task.topicPartitions().stream())
            .filter(partition -> partition.topic().endsWith(COUNTED))
            .map(TopicPartition::partition).collect(Collectors.toSet());
        return IntStream.range(0, GROUPS)
            .filter(group -> partitions.contains(streams.queryMetadataForKey(
                STORE, group, Serdes.Integer().serializer()).partition()))
            .boxed().toList();
    }

    private static String quoted(HostInfo instance) {
        return "\"" + instance.host() + "\"";
    }

    /** The count of each group of ids in the stores of this instance, including standby stores. */
    private static List<String> counts(KafkaStreams streams) {
        ReadOnlyKeyValueStore<Integer, Long> store = streams.store(StoreQueryParameters
            .fromNameAndType(STORE, QueryableStoreTypes.<Integer, Long>keyValueStore())
            .enableStaleStores());
        List<String> all = new ArrayList<>();
        try (KeyValueIterator<Integer, Long> counts = store.all()) {
            counts.forEachRemaining(it -> all.add("[" + it.key + "," + it.value + "]"));
        }
        return all;
    }

    private Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> input =
            builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
        input.map((key, value) -> KeyValue.pair(Integer.parseInt(new String(key)) % GROUPS, value))
            .groupByKey(Grouped.with(BY_GROUP, Serdes.Integer(), Serdes.ByteArray()))
            .count(Materialized.<Integer, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                .withKeySerde(Serdes.Integer()))
            .toStream((group, count) -> Math.toIntExact(group * COUNTS + count))
            .map((id, count) -> KeyValue.pair(Events.keyOf(id), Events.valueOf(id)))
            .to(Processor.output(topic), Produced.with(Serdes.ByteArray(), Serdes.ByteArray(),
                (name, key, value, partitions) -> Optional.of(
                    Set.of(Integer.parseInt(new String(key)) / COUNTS % partitions))));
        if (Boolean.getBoolean("copies")) {
            input.to(topic + "-copy", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        }
        if (Boolean.getBoolean("joins")) {
            side(input, "left")
                .join(side(input, "right"), (left, right) -> left,
                    JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(5)),
                    StreamJoined.with(Serdes.ByteArray(), Serdes.ByteArray(), Serdes.ByteArray())
                        .withName("pairs").withStoreName("pairs"))
                .to(topic + "-joined", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        }
        return builder.build();
    }

    private static KStream<byte[], byte[]> side(KStream<byte[], byte[]> input, String name) {
        return input.repartition(
            Repartitioned.with(Serdes.ByteArray(), Serdes.ByteArray()).withName(name));
    }

    private Properties config() {
        Properties config = Events.quick(new Properties());
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, System.getProperty("processing.guarantee"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory);
        // Transactions stay open for long and are sent at once, so that a kill hits an open one.
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.producerPrefix("linger.ms"), 0);
        // Without a cache every count is written, not only the last one before a commit.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put("auto.offset.reset", "earliest");
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        config.put(StreamsConfig.APPLICATION_SERVER_CONFIG, System.getProperty("application.server", ""));
        String instance = System.getProperty("group.instance.id");
        if (instance != null) {
            config.put("group.instance.id", instance);
        }
        if (protocol.equals("classic")) {
            config.put("session.timeout.ms", sessionMs);
            config.put("heartbeat.interval.ms", "300");
        }
        return config;
    }
}
