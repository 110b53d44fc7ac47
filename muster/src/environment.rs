//! The environment variables of Kafka's container images. A variable `KAFKA_…` sets a config, as
//! it does in `kafka.docker.KafkaDockerWrapper`.

use muster_codec::Uuid;
use muster_server::config::{Config, Finding, Findings, Kind};
use std::env;
use std::ffi::OsString;
use tracing::info;

const PREFIX: &str = "KAFKA_";

/// Variables of Kafka's images that are not configs. They concern the JVM, its logging, and the
/// version of the image.
const NOT_CONFIGS: &[&str] = &[
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
];

/// The variable with the cluster id. Kafka's images format their storage with this id.
const CLUSTER_ID: &str = "CLUSTER_ID";

/// The variables that affect muster.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) cluster_id: Option<String>,
    /// The variables that set configs, each with the key of its config.
    variables: Vec<Variable>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Variable {
    key: String,
    name: String,
    value: String,
}

impl Environment {
    /// The environment of this process.
    /// # Errors
    /// CLUSTER_ID is not a valid id.
    pub(crate) fn of_process() -> Result<Self, String> {
        let text = |it: OsString| it.to_string_lossy().into_owned();
        Self::new(env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn new(variables: Vec<(String, String)>) -> Result<Self, String> {
        let is_id = |(name, value): &&(String, String)| name == CLUSTER_ID && !value.is_empty();
        let cluster_id = variables.iter().find(is_id).map(|(_, value)| value.clone());
        let mut variables: Vec<_> = variables
            .into_iter()
            .filter(|(name, _)| !NOT_CONFIGS.contains(&&**name))
            .filter_map(|(name, value)| {
                let key = key(name.strip_prefix(PREFIX)?);
                Some(Variable { key, name, value })
            })
            .collect();
        variables.sort();
        match cluster_id {
            Some(id) if Uuid::parse(&id).is_none() => Err(format!(
                "CLUSTER_ID={id} is not an id: expected 22 characters (`kafka-storage random-uuid`)"
            )),
            cluster_id => Ok(Self { cluster_id, variables }),
        }
    }

    /// Reads configs from three sources: `file`, a text in the form of `server.properties`; the
    /// variables, which override it; and `words` of the form `key=value`, which override both.
    ///
    /// A variable with an unknown key is ignored: images set such variables for their own scripts.
    ///
    /// # Errors
    /// A finding prevents startup. The error contains all findings.
    pub(crate) fn read(&self, file: &str, words: &[String]) -> Result<Config, Findings> {
        let before = file.lines().count();
        // Values are not escaped. Kafka's images write them to their file without escaping, too.
        let lines = self.variables.iter().map(|it| format!("\n{}={}", it.key, it.value));
        let (config, findings) =
            Config::read(&format!("{file}{}", lines.collect::<String>()), words);
        let is_of_variable = |finding: &Finding| finding.line.is_some_and(|line| line > before);
        let is_unknown = |finding: &&Finding| {
            matches!(finding.kind, Kind::Unknown { .. }) && is_of_variable(finding)
        };
        let unknown: Vec<_> = findings.fatal().filter(is_unknown).map(|it| &*it.key).collect();
        if findings.fatal().count() > unknown.len() {
            return Err(findings);
        }
        let of_unknown = self.variables.iter().filter(|it| unknown.contains(&&*it.key));
        let names: Vec<_> = of_unknown.map(|it| &*it.name).collect();
        if !names.is_empty() {
            info!("environment variables that name no config: {}", names.join(", "));
        }
        Ok(config)
    }
}

/// The config key that a variable sets, from its name without `KAFKA_`: a single underscore becomes
/// a dot, two become an underscore, three become a dash.
fn key(name: &str) -> String {
    name.to_lowercase().replace('_', ".").replace("...", "-").replace("..", "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::new(owned.collect()).unwrap()
    }

    #[test]
    fn variables_win_over_the_file_and_words_over_both() {
        let variables = environment(&[
            ("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "1"),
            ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "5"),
            ("PATH", "/usr/bin"),
            ("kafka_num_partitions", "7"),
        ]);
        let file = "offsets.topic.num.partitions=8\nnum.partitions=2";
        let words = ["group.initial.rebalance.delay.ms=9".to_owned()];
        let config = variables.read(file, &words).unwrap();
        let set =
            ["offsets.topic.num.partitions", "num.partitions", "group.initial.rebalance.delay.ms"];
        assert_eq!(set.map(|key| config.set_text(key)), [Some("1"), Some("2"), Some("9")]);
    }

    #[test]
    fn underscores_are_doubled_and_dashes_are_three() {
        assert_eq!(key("LOG_CLEANER__A___B"), "log.cleaner_a-b");
    }

    #[test]
    fn an_unknown_variable_has_no_effect_and_a_wrong_value_is_refused() {
        let variables = environment(&[("KAFKA_HEAP_OPTS", "-Xmx1g"), ("KAFKA_CFG_NODE_ID", "1")]);
        assert!(variables.read("", &[]).is_ok());
        assert!(variables.read("cfg.node.id=1", &[]).is_err(), "in a file it is a typing error");
        assert!(environment(&[("KAFKA_NUM_PARTITIONS", "many")]).read("", &[]).is_err());
        assert!(environment(&[("KAFKA_PROCESS_ROLES", "controller")]).read("", &[]).is_err());
    }

    #[test]
    fn the_cluster_id_is_a_uuid() {
        let of = |id: &str| Environment::new(vec![(CLUSTER_ID.into(), id.into())]);
        let id = "4L6g3nShT-eMCtK--X86sw";
        assert_eq!(of(id).unwrap().cluster_id.as_deref(), Some(id));
        assert_eq!(of("").unwrap().cluster_id, None);
        assert!(of("mine").is_err());
    }
}
