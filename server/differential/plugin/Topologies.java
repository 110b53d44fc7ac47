import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/**
 * Keeps the descriptions of topologies in memory, because Kafka has no plug-in of its own. muster
 * needs no plug-in.
 */
public class Topologies implements StreamsGroupTopologyDescriptionPlugin {
    private record Stored(int epoch, StreamsGroupTopologyDescription description) {}

    private final Map<String, Stored> groups = new ConcurrentHashMap<>();

    @Override
    public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription description) {
        groups.merge(group, new Stored(epoch, description), (old, one) -> one.epoch < old.epoch ? old : one);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        groups.remove(group);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        Stored stored = groups.get(group);
        boolean isIt = stored != null && stored.epoch == epoch;
        return CompletableFuture.completedFuture(isIt ? stored.description : null);
    }

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}
}
