import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client behind the adapter protocol, which protocol.py describes. */
public final class Client {
    private static final int CHUNK = 100;
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final String SERVER_SIDE = "consumer-";
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");

    private String bootstrap;
    private String topic;
    private String group;
    private Map<String, String> security = Map.of();
    private final String option;
    private final String sessionMs;
    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> reader;

    private Client(String[] args) {
        bootstrap = args[1];
        topic = args[2];
        group = args[3];
        option = args[4];
        sessionMs = args[5];
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args);
        switch (args[0]) {
            case "consume" -> client.consume(client.option, Events.leaving());
            case "process" -> new Processor(args[1], args[2], args[3], args[4], args[5]).run();
            case "share" -> new Sharer(client.common(), args[2], args[3], args[4]).run();
            default -> client.control();
        }
    }

    private void control() throws Exception {
        Events.emit("ready", "");
        BufferedReader lines = Events.stdin();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "create" -> create(Integer.parseInt(words[1]));
                case "create_flushed" -> createFlushed(Integer.parseInt(words[1]));
                case "produce" -> produce(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                case "committed" -> committed(topic);
                case "committed_of" -> committed(words[1]);
                case "group_state" -> groupState();
                case "streams_group" -> streamsGroup();
                case "configure_group", "share_state", "share_offsets", "share_queue" ->
                    share(words);
                case "share_letters" -> letters(words[1]);
                case "dump" -> dump();
                case "transact" -> transact();
                case "connect" -> connect(Security.place(words));
                case "read" -> consume(words[1], Events.committed(Integer.parseInt(words[2])));
                case "be_refused" -> beRefused();
                case "read_committed" -> readCommittedOn();
                case "read_committed_again" -> {
                    closeReader();
                    readCommittedOn();
                }
                default -> throw new IllegalArgumentException("no verb " + words[0]);
            }
        }
        closeReader();
        closeProducer();
    }

    private void connect(Map<String, String> place) {
        closeProducer();
        bootstrap = place.get("bootstrap");
        topic = place.get("topic");
        group = place.get("group");
        security = Security.config(place);
        Events.emit("connected", "");
    }

    private void closeProducer() {
        if (producer != null) {
            producer.close();
            producer = null;
        }
    }

    private void beRefused() throws Exception {
        try {
            create(1);
        } catch (ExecutionException | KafkaException error) {
            Events.emit("refused", Events.error(error));
        }
    }

    private void create(int partitions) throws Exception {
        create(new NewTopic(topic, partitions, (short) 1));
    }

    /** Creates a topic whose records are flushed to the disk before they are acknowledged. */
    private void createFlushed(int partitions) throws Exception {
        NewTopic flushed = new NewTopic(topic, partitions, (short) 1);
        create(flushed.configs(Map.of("flush.messages", "1")));
    }

    private void create(NewTopic described) throws Exception {
        try (Admin admin = Admin.create(common())) {
            admin.createTopics(List.of(described)).all().get();
        }
        Events.emit("created", "");
    }

    private void produce(int first, int count) throws Exception {
        if (producer == null) {
            Properties config = common();
            config.put("compression.type", option);
            producer = new KafkaProducer<>(
                config, new ByteArraySerializer(), new ByteArraySerializer());
        }
        for (int start = first; start < first + count; start += CHUNK) {
            produceChunk(start, Math.min(start + CHUNK, first + count));
        }
        Events.emit("produced", "");
    }

    private void produceChunk(int start, int end) throws InterruptedException {
        Map<Integer, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        for (int id = start; id < end; id++) {
            byte[] key = Events.keyOf(id);
            sent.put(id, producer.send(new ProducerRecord<>(topic, key, Events.valueOf(id))));
        }
        List<String> acked = new ArrayList<>();
        for (Map.Entry<Integer, Future<RecordMetadata>> one : sent.entrySet()) {
            try {
                RecordMetadata metadata = one.getValue().get();
                acked.add(Events.record(one.getKey(), metadata.partition(), metadata.offset()));
            } catch (ExecutionException error) {
                Events.emit("failed", ",\"id\":" + one.getKey() + Events.error(error));
            }
        }
        Events.emit("acked", ",\"records\":" + acked);
    }

    private void committed(String of) throws Exception {
        try (Admin admin = Admin.create(common())) {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>(
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
            found.keySet().removeIf(partition -> !partition.topic().equals(of));
            Events.emit("offsets", Events.offsets(found));
        }
    }

    private void groupState() throws Exception {
        try (Admin admin = Admin.create(common())) {
            var groups = admin.describeConsumerGroups(List.of(group)).describedGroups();
            var found = groups.get(group).get();
            Events.emit("group", ",\"state\":\"" + found.groupState() + "\",\"protocol\":\""
                + found.partitionAssignor() + "\",\"members\":" + found.members().size());
        }
    }

    /** The epochs of a streams group and of its static members. */
    private void streamsGroup() throws Exception {
        try (Admin admin = Admin.create(Events.quick(common()))) {
            var found = admin.describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
            String members = found.members().stream().filter(it -> it.instanceId().isPresent())
                .map(it -> "\"" + it.instanceId().get() + "\":" + it.memberEpoch())
                .collect(Collectors.joining(",", "{", "}"));
            Events.emit("streams_group", ",\"state\":\"" + found.groupState() + "\",\"epoch\":"
                + found.groupEpoch() + ",\"members\":" + members);
        }
    }

    private void share(String[] words) throws Exception {
        try (Admin admin = Admin.create(Events.quick(common()))) {
            switch (words[0]) {
                case "configure_group" -> ShareAdmin.configure(
                    admin, group, Arrays.asList(words).subList(1, words.length));
                case "share_state" -> ShareAdmin.state(admin, group);
                case "share_queue" -> ShareAdmin.createQueue(admin, words[1]);
                default -> ShareAdmin.offsets(admin, group);
            }
        }
    }

    private void letters(String queue) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(common())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(queue).forEach(
                it -> partitions.add(new TopicPartition(queue, it.partition())));
            ShareAdmin.letters(consumer, partitions);
        }
    }

    private void dump() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(common())) {
            List<TopicPartition> partitions = partitions(consumer);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                Events.emitRecords("log", consumer.poll(Duration.ofMillis(500)));
            }
        }
        Events.emit("dumped", "");
    }

    /** Aborts a transaction, commits another, and then reads the committed records. */
    private void transact() throws Exception {
        String name = topic + "-transactions";
        Properties config = common();
        config.put("transactional.id", group);
        try (KafkaProducer<byte[], byte[]> transactional = new KafkaProducer<>(
                config, new ByteArraySerializer(), new ByteArraySerializer())) {
            transactional.initTransactions();
            sendInTransaction(transactional, name, 0);
            transactional.abortTransaction();
            sendInTransaction(transactional, name, 10);
            transactional.commitTransaction();
        }
        Events.emit("transacted",
            ",\"ids\":" + readCommitted(name) + ",\"offset\":" + committedIn(name));
    }

    /** Reads from the end of the last call up to the last stable offsets, and reports these. */
    private void readCommittedOn() {
        if (reader == null) {
            Properties config = Events.quick(common());
            config.put("isolation.level", "read_committed");
            config.put("auto.offset.reset", "none");
            reader = consumer(config);
            reader.assign(partitions(reader));
            reader.seekToBeginning(reader.assignment());
        }
        Map<TopicPartition, Long> ends = reader.endOffsets(reader.assignment());
        while (ends.entrySet().stream().anyMatch(e -> reader.position(e.getKey()) < e.getValue())) {
            Events.emitRecords("log", reader.poll(Duration.ofMillis(100)));
        }
        Map<TopicPartition, OffsetAndMetadata> stable = new HashMap<>();
        ends.forEach((partition, end) -> stable.put(partition, new OffsetAndMetadata(end)));
        Events.emit("stable", Events.offsets(stable));
    }

    private void closeReader() {
        if (reader != null) {
            reader.close();
            reader = null;
        }
    }

    private List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer) {
        return consumer.partitionsFor(topic).stream()
            .map(info -> new TopicPartition(topic, info.partition())).toList();
    }

    private long committedIn(String name) {
        Properties config = common();
        config.put("group.id", group + "-transactions");
        TopicPartition partition = new TopicPartition(name, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(config)) {
            OffsetAndMetadata found = null;
            while (found == null) {
                found = consumer.committed(Set.of(partition)).get(partition);
            }
            return found.offset();
        }
    }

    private void sendInTransaction(
            KafkaProducer<byte[], byte[]> transactional, String name, int first) throws Exception {
        transactional.beginTransaction();
        for (int id = first; id < first + 10; id++) {
            byte[] key = Events.keyOf(id);
            transactional.send(new ProducerRecord<>(name, key, Events.valueOf(id))).get();
        }
        transactional.sendOffsetsToTransaction(
            Map.of(new TopicPartition(name, 0), new OffsetAndMetadata(first + 10)),
            new ConsumerGroupMetadata(group + "-transactions"));
    }

    private List<Integer> readCommitted(String name) {
        Properties config = common();
        config.put("isolation.level", "read_committed");
        List<Integer> ids = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(config)) {
            TopicPartition partition = new TopicPartition(name, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    ids.add(Integer.parseInt(new String(r.key(), StandardCharsets.UTF_8)));
                }
            }
        }
        return ids;
    }

    private void consume(String assignor, AtomicBoolean leaving) {
        Properties config = common();
        config.put("group.id", group);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.putAll(assignment(assignor));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(config)) {
            consumer.subscribe(List.of(topic), new Listener());
            while (!leaving.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    Events.emitRecords("records", records);
                    commit(consumer, records);
                }
            }
        }
        Events.emit("left", "");
    }

    /** The configs of the assignor: one of the server, or one that a member runs. */
    private Map<String, String> assignment(String assignor) {
        if (assignor.startsWith(SERVER_SIDE)) {
            return Map.of(
                "group.protocol", "consumer",
                "group.remote.assignor", assignor.substring(SERVER_SIDE.length()));
        }
        Map<String, String> config = new HashMap<>();
        config.put("session.timeout.ms", sessionMs);
        config.put("heartbeat.interval.ms", "500");
        if (!assignor.equals("default")) {
            config.put("partition.assignment.strategy", PACKAGE + ASSIGNORS.get(assignor));
        }
        return config;
    }

    /** Commits the records just printed, and reports it once the coordinator has answered. */
    private void commit(
            KafkaConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            offsets.put(
                new TopicPartition(topic, r.partition()), new OffsetAndMetadata(r.offset() + 1));
        }
        try {
            consumer.commitSync(offsets);
            Events.emitCommitted(offsets);
        } catch (KafkaException error) {
            Events.emit("commit_failed", Events.error(error));
        }
    }

    private Properties common() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.putAll(security);
        return config;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Properties config) {
        return new KafkaConsumer<>(
            config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            report("assigned", assigned);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            report("revoked", revoked);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            report("revoked", lost);
        }

        private static void report(String event, Collection<TopicPartition> partitions) {
            Events.emit(event, ",\"partitions\":"
                + partitions.stream().map(TopicPartition::partition).toList());
        }
    }
}
