package orders;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.awaitility.core.ConditionFactory;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.testcontainers.kafka.KafkaContainer;

@SpringBootTest(properties = "spring.kafka.consumer.auto-offset-reset=earliest")
class OrdersTest {
    @TestConfiguration(proxyBeanMethods = false)
    static class Containers {
        @Bean
        @ServiceConnection
        KafkaContainer kafka() {
            return new ProcessContainer();
        }
    }

    @Autowired KafkaTemplate<String, String> template;
    @Autowired KafkaTemplate<String, String> payments;
    @Autowired KafkaAdmin admin;
    @Autowired Orders.Warehouse warehouse;
    @Autowired Orders.Seen seen;

    private static ConditionFactory within() {
        return await().atMost(Duration.ofSeconds(60));
    }

    @Test
    void anOrderIsShipped() throws Exception {
        long offset = template.send("orders", "first", "Ithaca").get().getRecordMetadata().offset();
        assertThat(offset).isNotNegative();
        within().untilAsserted(() -> assertThat(seen.shipped).contains("first to Ithaca"));
    }

    @Test
    void anOrderWithoutAddressIsTriedThreeTimesAndKept() throws Exception {
        template.send("orders", "second", "").get();
        within().untilAsserted(() -> assertThat(seen.refused).contains("second"));
        assertThat(warehouse.attempts.stream().filter(String::isEmpty)).hasSize(3);
    }

    @Test
    void aPaymentThatFailedIsNeverSeen() {
        assertThatThrownBy(() -> payments.executeInTransaction(it -> {
            it.send("paid", "aborted");
            throw new IllegalStateException("no money");
        })).isInstanceOf(IllegalStateException.class);
        payments.executeInTransaction(it -> it.send("paid", "committed"));
        within().untilAsserted(() -> assertThat(seen.paid).isEqualTo(List.of("committed")));
    }

    @Test
    void theGroupsCommitWhatTheyHaveRead() throws Exception {
        long before = committed();
        for (int number = 0; number < 30; number++) {
            template.send("orders", "key-" + number, "Troy").get();
        }
        within().untilAsserted(() -> assertThat(committed()).isGreaterThanOrEqualTo(before + 30));
    }

    /** The sum of the committed offsets of the shipping group. */
    private long committed() throws Exception {
        try (AdminClient client = AdminClient.create(admin.getConfigurationProperties())) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                    client.listConsumerGroupOffsets("warehouse").partitionsToOffsetAndMetadata().get();
            return offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum();
        }
    }
}
