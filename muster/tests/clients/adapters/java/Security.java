import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** The client configs for a listener with TLS or SASL, from the words of `connect`. */
final class Security {
    private static final String PACKAGE = "org.apache.kafka.common.security.";

    private Security() {}

    static Map<String, String> place(String[] words) {
        return Arrays.stream(words).skip(1).map(word -> word.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    static Map<String, String> config(Map<String, String> place) {
        Map<String, String> config = new HashMap<>();
        config.put("security.protocol", place.getOrDefault("protocol", "PLAINTEXT"));
        if (place.containsKey("ca")) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.location", place.get("ca"));
        }
        if (place.containsKey("identity")) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", place.get("identity"));
        }
        if (place.containsKey("mechanism")) {
            config.put("sasl.mechanism", place.get("mechanism"));
            config.putAll(place.containsKey("token") ? ofToken(place) : ofPassword(place));
        }
        return config;
    }

    private static Map<String, String> ofPassword(Map<String, String> place) {
        boolean isPlain = place.get("mechanism").equals("PLAIN");
        String module = isPlain ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return Map.of("sasl.jaas.config", String.format(
            "%s%s required username=\"%s\" password=\"%s\";",
            PACKAGE, module, place.get("user"), place.get("password")));
    }

    private static Map<String, String> ofToken(Map<String, String> place) {
        String url = "file://" + place.get("token");
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
        return Map.of(
            "sasl.jaas.config", PACKAGE + "oauthbearer.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class",
            PACKAGE + "oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class", PACKAGE + "oauthbearer.FileJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url", url);
    }
}
