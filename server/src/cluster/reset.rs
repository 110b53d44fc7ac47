//! The records that reset a cluster to its initial state. Users keep their credentials, because
//! clients that are connected have authenticated with them.

use super::change::config_record;
use super::{ClusterImage, deleted_topic_record};
use crate::config::Config;
use muster_codec::Wall;
use muster_codec::records::{ClusterRecord, TopicKey};

impl ClusterImage {
    /// The records of a reset, which runs at the time `wall`.
    pub(crate) fn reset_records(&self, config: &Config, wall: Wall) -> Vec<ClusterRecord<'static>> {
        let new = Self::new(config);
        let mut records = Vec::new();
        for record in self.records(config) {
            match record {
                ClusterRecord::Topic(TopicKey { topic_id }, Some(value)) => {
                    records.push(ClusterRecord::Topic(TopicKey { topic_id }, None));
                    records.push(deleted_topic_record(topic_id, Some((&value.name, wall.0))));
                }
                ClusterRecord::Config(key, _) => {
                    let of_new = new.configs(key.resource_type, &key.resource_name);
                    let value = of_new.and_then(|it| it.get(&*key.name)).map(ToString::to_string);
                    let (of, name) = (key.resource_type, &key.resource_name);
                    records.push(config_record(of, name, &key.name, value));
                }
                ClusterRecord::Acl(key, Some(_)) => records.push(ClusterRecord::Acl(key, None)),
                ClusterRecord::ClientQuota(key, Some(_)) => {
                    records.push(ClusterRecord::ClientQuota(key, None));
                }
                ClusterRecord::Topic(_, None)
                | ClusterRecord::Acl(_, None)
                | ClusterRecord::ClientQuota(_, None)
                | ClusterRecord::ScramCredential(..)
                | ClusterRecord::DeletedTopic(..)
                | ClusterRecord::ProducerIds(..)
                | ClusterRecord::ClusterId(..) => {}
            }
        }
        records
    }
}
