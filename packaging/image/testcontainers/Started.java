import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.model.ContainerConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * What Testcontainers gives a container of Kafka, without an engine: {@code Started DIRECTORY PORT}. The files that it copies
 * are written below the directory; its environment (a line each, which begins with "env ") and its command are printed.
 */
final class Started extends KafkaContainer {
    private final Path directory;
    private final int port;

    private Started(Path directory, int port) {
        super(DockerImageName.parse("muster-test").asCompatibleSubstituteFor("apache/kafka"));
        this.directory = directory;
        this.port = port;
    }

    public static void main(String[] arguments) {
        Started container = new Started(Path.of(arguments[0]), Integer.parseInt(arguments[1]));
        container.configure();
        for (Map.Entry<String, String> variable : container.getEnvMap().entrySet()) {
            System.out.println("env " + variable.getKey() + "=" + variable.getValue());
        }
        for (String word : container.getCommandParts()) {
            System.out.println("command " + word);
        }
        container.containerIsStarting(named("localhost"));
    }

    private static InspectContainerResponse named(String host) {
        ContainerConfig config = new ContainerConfig().withHostName(host);
        return new InspectContainerResponse() {
            @Override
            public ContainerConfig getConfig() {
                return config;
            }
        };
    }

    @Override
    public String getHost() {
        return "127.0.0.1";
    }

    @Override
    public Integer getMappedPort(int inner) {
        return port;
    }

    @Override
    public void copyFileToContainer(Transferable file, String path) {
        try {
            Path target = directory.resolve(path.substring(1));
            Files.write(target, file.getBytes());
            target.toFile().setExecutable(true, false);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
