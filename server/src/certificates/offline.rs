//! Checks certificates for a change of configs while no server runs.

use super::listeners::ListenerCertificates;
use super::seconds;
use crate::Failure;
use crate::cluster::{View, certificates_of, listener_left_with_certificates};
use crate::config::ShardTls;
use muster_codec::messages::IncrementalAlterConfigsRequest;
use std::collections::BTreeMap;

/// The reasons why brokers could not use their certificates after a request, by node id. A server
/// with the configs of the view would decide the same.
///
/// # Errors
/// The server would not start with its configs, or the configs are needed and not known.
pub fn refused_offline(
    view: &View<'_>,
    request: &IncrementalAlterConfigsRequest<'_>,
) -> Result<BTreeMap<u32, String>, Failure> {
    let Some(served) = &view.config.served else {
        return without_configs(view, request).map(|()| BTreeMap::new());
    };
    let altered = certificates_of(view, &request.clone().into());
    if altered.is_empty() {
        return Ok(BTreeMap::new());
    }
    let now = seconds();
    let mut certificates = ListenerCertificates::load(view.config, &served.listeners, now)?;
    for ShardTls { shard, .. } in &altered {
        let before = view.config.with_dynamic(view.image, *shard).replaced_tls(view.config);
        certificates.take(&ShardTls { shard: *shard, replacements: before }, now);
    }
    Ok(certificates.refused(&altered, now))
}

/// Checks a request without the server's configs. Such a request may only remove all certificates
/// of a listener. Other changes cannot be checked, because a certificate that clients set is used
/// together with configs of the server.
fn without_configs(
    view: &View<'_>,
    request: &IncrementalAlterConfigsRequest<'_>,
) -> Result<(), Failure> {
    match listener_left_with_certificates(view, request) {
        Some(listener) => Err(format!(
            "whether listener {listener} can use this follows from the configs that the server is \
             started with: name their file with --config"
        )
        .into()),
        None => Ok(()),
    }
}
