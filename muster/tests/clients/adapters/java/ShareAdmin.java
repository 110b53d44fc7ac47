import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.header.Header;

/** The verbs about share groups: their configs, their state and their progress. */
final class ShareAdmin {
    private ShareAdmin() {}

    /** Changes configs of the group. Each word is KEY=VALUE, or the KEY that gets its default again. */
    static void configure(Admin admin, String group, List<String> words) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        List<AlterConfigOp> changes = new ArrayList<>();
        for (String word : words) {
            String[] parts = word.split("=", 2);
            changes.add(parts.length == 1
                ? new AlterConfigOp(new ConfigEntry(word, ""), AlterConfigOp.OpType.DELETE)
                : new AlterConfigOp(new ConfigEntry(parts[0], parts[1]), AlterConfigOp.OpType.SET));
        }
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        Events.emit("configured", "");
    }

    /** Creates a topic that may be the dead letter queue of a group. */
    static void createQueue(Admin admin, String name) throws Exception {
        NewTopic queue = new NewTopic(name, Optional.of(2), Optional.empty());
        queue.configs(Map.of("errors.deadletterqueue.group.enable", "true"));
        admin.createTopics(List.of(queue)).all().get();
        Events.emit("queue_created", "");
    }

    /** Reads a queue to its end. Prints each record's partition and offset, and the reason. */
    static void letters(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) {
        List<String> letters = new ArrayList<>();
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
            consumer.poll(Duration.ofMillis(500)).forEach(letter -> letters.add(
                "[" + header(letter, "partition") + "," + header(letter, "offset") + ",\""
                    + header(letter, "message") + "\"]"));
        }
        Events.emit("letters", ",\"letters\":[" + String.join(",", letters) + "]");
    }

    private static String header(ConsumerRecord<byte[], byte[]> letter, String name) {
        Header header = letter.headers().lastHeader("__dlq.errors." + name);
        return new String(header.value(), StandardCharsets.UTF_8);
    }

    static void state(Admin admin, String group) throws Exception {
        try {
            var groups = admin.describeShareGroups(List.of(group)).describedGroups();
            var found = groups.get(group).get();
            Events.emit("group", ",\"state\":\"" + found.groupState() + "\",\"members\":"
                + found.members().size());
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof GroupIdNotFoundException)) {
                throw error;
            }
            Events.emit("group", ",\"state\":\"Dead\",\"members\":0");
        }
    }

    /** Prints for each partition the start offset, and the lag (-1 if unknown). */
    static void offsets(Admin admin, String group) throws Exception {
        var found = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(group).get();
        List<String> starts = new ArrayList<>();
        List<String> lags = new ArrayList<>();
        found.forEach((partition, info) -> {
            if (info != null) {
                starts.add("\"" + partition.partition() + "\":" + info.startOffset());
                lags.add("\"" + partition.partition() + "\":" + info.lag().orElse(-1L));
            }
        });
        Events.emit("share_offsets", ",\"starts\":{" + String.join(",", starts) + "},\"lags\":{"
            + String.join(",", lags) + "}");
    }
}
