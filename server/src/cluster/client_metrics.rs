//! Limits on client metrics subscriptions (KIP-714).

use super::change::Refused;
use super::limits::{
    CLIENT_METRICS_BYTES_MAX, CLIENT_METRICS_INSTRUCTIONS_MAX, CLIENT_METRICS_MAX,
};
use super::{CLIENT_METRICS_RESOURCE, ClusterImage, Overrides};
use crate::config::{ClientMetricsConfig, ClientPatterns};
use muster_codec::ErrorCode;
use std::collections::BTreeMap;

/// The sizes of all subscriptions, including the changes of the request so far.
pub(super) struct SubscriptionBudget<'i> {
    image: &'i ClusterImage,
    /// The size of each subscription, by name; None before the first change.
    uses: Option<BTreeMap<String, Use>>,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    bytes: usize,
    instructions: usize,
}

impl<'i> SubscriptionBudget<'i> {
    pub(super) fn new(image: &'i ClusterImage) -> Self {
        Self { image, uses: None }
    }

    /// Checks that the new state of a subscription is valid and within the limits, and counts it.
    pub(super) fn check(&mut self, name: &str, after: &Overrides) -> Result<(), Refused> {
        if name.is_empty() {
            return Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Subscription name can't be empty",
            ));
        }
        let (_, patterns) = ClientMetricsConfig::parse(after)
            .map_err(|invalid| Refused::new(invalid.error, invalid.to_string()))?;
        let uses = self.uses.get_or_insert_with(|| uses_of_all(self.image));
        let before = uses.remove(name);
        if after.is_empty() {
            return Ok(());
        }
        uses.insert(name.to_owned(), Use::of(name, after, &patterns));
        check_sums(uses).inspect_err(|_| {
            uses.remove(name);
            uses.extend(before.map(|before| (name.to_owned(), before)));
        })
    }
}

impl Use {
    fn of(name: &str, configs: &Overrides, patterns: &ClientPatterns) -> Self {
        let texts: usize = configs.iter().map(|(key, value)| key.len() + value.len()).sum();
        Self { bytes: name.len() + texts, instructions: patterns.instructions() }
    }
}

fn uses_of_all(image: &ClusterImage) -> BTreeMap<String, Use> {
    let all = image.configured(CLIENT_METRICS_RESOURCE, "").filter_map(|name| {
        let configs = image.configs(CLIENT_METRICS_RESOURCE, name)?;
        let patterns = ClientMetricsConfig::parse(configs).map(|(_, patterns)| patterns);
        Some((name.to_owned(), Use::of(name, configs, &patterns.unwrap_or_default())))
    });
    all.collect()
}

fn check_sums(uses: &BTreeMap<String, Use>) -> Result<(), Refused> {
    let bytes: usize = uses.values().map(|it| it.bytes).sum();
    let instructions: usize = uses.values().map(|it| it.instructions).sum();
    let refuse = |words| Err(Refused::new(ErrorCode::PolicyViolation, words));
    if uses.len() > CLIENT_METRICS_MAX {
        return refuse(format!(
            "There are {CLIENT_METRICS_MAX} subscriptions to metrics of clients, which is the most \
             (CLIENT_METRICS_MAX)."
        ));
    }
    if bytes > CLIENT_METRICS_BYTES_MAX {
        return refuse(format!(
            "Subscriptions to metrics of clients have at most {CLIENT_METRICS_BYTES_MAX} bytes \
             together (CLIENT_METRICS_BYTES_MAX)."
        ));
    }
    if instructions > CLIENT_METRICS_INSTRUCTIONS_MAX {
        return refuse(format!(
            "The expressions of subscriptions to metrics of clients would have {instructions} \
             instructions together; they may have {CLIENT_METRICS_INSTRUCTIONS_MAX} \
             (CLIENT_METRICS_INSTRUCTIONS_MAX)."
        ));
    }
    Ok(())
}
