import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes a transaction that the tools inspect, with three records and an offset of a group. It stays
 * open, or is committed or aborted. `--bootstrap-server HOST:PORT ID TOPIC GROUP open|commit|abort`
 */
final class Holder {
    private static final int RECORDS = 3;

    private Holder() {}

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[1]);
        config.put("transactional.id", args[2]);
        config.put("transaction.timeout.ms", "900000");
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        begin(producer, args[3], args[4]);
        System.out.println("the transaction of " + args[2] + " is open");
        switch (args[5]) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> Thread.currentThread().join();  // until the process is killed
        }
        producer.close();
    }

    private static void begin(KafkaProducer<String, String> producer, String topic, String group)
            throws Exception {
        producer.beginTransaction();
        for (int number = 0; number < RECORDS; number++) {
            producer.send(new ProducerRecord<>(topic, 0, "key" + number, "value" + number)).get();
        }
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(RECORDS)),
            new ConsumerGroupMetadata(group));
    }
}
