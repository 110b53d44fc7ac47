package orders;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.stereotype.Component;
import org.springframework.util.backoff.FixedBackOff;

/** Receives orders and ships them. Orders without an address go to a separate topic. */
@SpringBootApplication
public class Orders {
    public static void main(String[] arguments) {
        SpringApplication.run(Orders.class, arguments);
    }

    @Bean
    NewTopic topicOfOrders() {
        return TopicBuilder.name("orders").partitions(3).build();
    }

    @Bean
    NewTopic topicOfShipped() {
        return TopicBuilder.name("shipped").partitions(1).build();
    }

    @Bean
    NewTopic topicOfRefused() {
        return TopicBuilder.name("orders-dlt").partitions(3).build();
    }

    @Bean
    NewTopic topicOfPaid() {
        return TopicBuilder.name("paid").partitions(1).build();
    }

    /** Producers of the application's own transactions. */
    @Bean
    KafkaTemplate<String, String> payments(ProducerFactory<String, String> factory) {
        DefaultKafkaProducerFactory<String, String> own =
                new DefaultKafkaProducerFactory<>(factory.getConfigurationProperties());
        own.setTransactionIdPrefix("payments-");
        return new KafkaTemplate<>(own);
    }

    @Bean
    KafkaTemplate<String, String> template(ProducerFactory<String, String> factory) {
        return new KafkaTemplate<>(factory);
    }

    @Bean
    DefaultErrorHandler errors(KafkaTemplate<String, String> template) {
        return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(50, 2));
    }

    @Component
    static class Warehouse {
        private final KafkaTemplate<String, String> template;
        final List<String> attempts = new CopyOnWriteArrayList<>();

        Warehouse(KafkaTemplate<String, String> template) {
            this.template = template;
        }

        @KafkaListener(topics = "orders", groupId = "warehouse", concurrency = "2")
        void ship(ConsumerRecord<String, String> order) {
            attempts.add(order.value());
            if (order.value().isEmpty()) {
                throw new IllegalArgumentException("no address");
            }
            template.send("shipped", order.key(), "to " + order.value());
        }
    }

    /** The view of other applications, in groups of both protocols. */
    @Component
    static class Seen {
        final List<String> shipped = new CopyOnWriteArrayList<>();
        final List<String> refused = new CopyOnWriteArrayList<>();
        final List<String> paid = new CopyOnWriteArrayList<>();

        @KafkaListener(topics = "shipped", groupId = "customers", properties = {"group.protocol=consumer"})
        void shipped(ConsumerRecord<String, String> record) {
            shipped.add(record.key() + " " + record.value());
        }

        @KafkaListener(topics = "orders-dlt", groupId = "complaints")
        void refused(ConsumerRecord<String, String> record) {
            refused.add(record.key());
        }

        @KafkaListener(topics = "paid", groupId = "books", properties = {"isolation.level=read_committed"})
        void paid(ConsumerRecord<String, String> record) {
            paid.add(record.value());
        }
    }
}
