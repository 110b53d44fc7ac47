//! How much of its size limits the cluster uses.

use super::limits::{
    ACLS_MAX, CLIENT_METRICS_MAX, GROUP_CONFIGS_MAX, PARTITIONS_MAX, QUOTA_ENTITIES_MAX,
    SCRAM_CREDENTIALS_MAX, TOPICS_MAX,
};
use super::{CLIENT_METRICS_RESOURCE, ClusterImage, GROUP_RESOURCE};
use crate::limit_gauges::{Limit, LimitGauges};

impl ClusterImage {
    /// Adds the cluster's use of each size limit.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let count = |count: i64| usize::try_from(count).unwrap_or(0);
        gauges.set(Limit::Topics, self.topic_count(), TOPICS_MAX);
        gauges.set(Limit::Partitions, count(self.partition_count()), count(PARTITIONS_MAX));
        gauges.set(Limit::Acls, self.acls().len(), ACLS_MAX);
        let credentials = self.scram_credential_count();
        gauges.set(Limit::Credentials, credentials, SCRAM_CREDENTIALS_MAX);
        gauges.set(Limit::Quotas, self.client_quotas().len(), QUOTA_ENTITIES_MAX);
        let configured = self.configured_count(GROUP_RESOURCE);
        gauges.set(Limit::GroupConfigs, configured, GROUP_CONFIGS_MAX);
        let subscriptions = self.configured_count(CLIENT_METRICS_RESOURCE);
        gauges.set(Limit::ClientMetrics, subscriptions, CLIENT_METRICS_MAX);
    }
}
