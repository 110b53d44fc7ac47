"""The stories, by the names of their parts."""

from stories.connect import Connect
from stories.karapace import Karapace
from stories.mirror import Mirror
from stories.programs import Faust, Quix, Spark, Streams
from stories.suites import FranzGo, Spring
from stories.watchers import Burrow, KafkaExporter, Kminion

PARTS = {
    "connect": Connect,
    "mirror": Mirror,
    "streams": Streams,
    "faust": Faust,
    "quix": Quix,
    "spark": Spark,
    "franz-go": FranzGo,
    "spring": Spring,
    "karapace": Karapace,
    "kafka_exporter": KafkaExporter,
    "kminion": Kminion,
    "burrow": Burrow,
}
