import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Shared by the Java programs: commands on stdin, records, one JSON event per line on stdout. */
final class Events {
    private static final String PADDING = "x".repeat(100);

    private static final Map<TopicPartition, Long> COMMITTED = new HashMap<>();
    private static int enough = Integer.MAX_VALUE;
    private static AtomicBoolean isEnough = new AtomicBoolean();

    private Events() {}

    /** Adds short back-offs, so that a client soon finds a server that was killed and restarted. */
    static Properties quick(Properties config) {
        config.put("reconnect.backoff.ms", "20");
        config.put("reconnect.backoff.max.ms", "50");
        config.put("retry.backoff.ms", "20");
        config.put("retry.backoff.max.ms", "50");
        return config;
    }

    /** A value that becomes true with the first line on stdin, or with its end. */
    static AtomicBoolean leaving() {
        return leaving(line -> false);
    }

    /**
     * A value that becomes true with the first line on stdin that `answers` does not handle, or
     * with its end.
     */
    static AtomicBoolean leaving(Predicate<String> answers) {
        AtomicBoolean leaving = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                BufferedReader lines = stdin();
                String line = lines.readLine();
                while (line != null && answers.test(line)) {
                    line = lines.readLine();
                }
            } catch (IOException ended) {
                // A failure counts as the end of stdin.
            }
            leaving.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        return leaving;
    }

    /** A value that becomes true once the sum of the committed offsets reaches a number. */
    static AtomicBoolean committed(int count) {
        COMMITTED.clear();
        enough = count;
        isEnough = new AtomicBoolean();
        return isEnough;
    }

    static void emitCommitted(Map<TopicPartition, OffsetAndMetadata> offsets) {
        emit("committed", offsets(offsets));
        offsets.forEach((partition, offset) -> COMMITTED.put(partition, offset.offset()));
        isEnough.set(COMMITTED.values().stream().mapToLong(Long::longValue).sum() >= enough);
    }

    static BufferedReader stdin() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    static void emitRecords(String event, ConsumerRecords<byte[], byte[]> records) {
        List<String> all = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            all.add(record(id(r), r.partition(), r.offset()));
        }
        emit(event, ",\"records\":" + all);
    }

    /** The id of a record. A record that differs from what was written ends the adapter. */
    static int id(ConsumerRecord<byte[], byte[]> r) {
        int id = Integer.parseInt(new String(r.key(), StandardCharsets.UTF_8));
        if (!Arrays.equals(r.value(), valueOf(id))) {
            throw new IllegalStateException("record " + id + " came back changed");
        }
        return id;
    }

    static byte[] keyOf(int id) {
        return Integer.toString(id).getBytes(StandardCharsets.UTF_8);
    }

    static byte[] valueOf(int id) {
        return (id + " " + PADDING).getBytes(StandardCharsets.UTF_8);
    }

    static String record(int id, int partition, long offset) {
        return "[" + id + "," + partition + "," + offset + "]";
    }

    static String offsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return offsets.entrySet().stream()
            .map(e -> "\"" + e.getKey().partition() + "\":" + e.getValue().offset())
            .collect(Collectors.joining(",", ",\"offsets\":{", "}"));
    }

    static String error(Exception error) {
        return ",\"error\":\"" + error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"";
    }

    /** Prints an event. The fields are JSON that begins with a comma, or an empty string. */
    static synchronized void emit(String event, String fields) {
        System.out.println("{\"event\":\"" + event + "\"" + fields + "}");
        System.out.flush();
    }
}
