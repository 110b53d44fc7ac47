//! The SCRAM credentials of users.

use super::ClusterImage;
use crate::security::{ScramCredential, ScramMechanism};
use imbl::OrdMap;
use muster_codec::records::{ClusterRecord, ScramCredentialKey, ScramCredentialValue};
use std::sync::Arc;

/// Credentials by user name and mechanism. Copies share their contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScramCredentials(OrdMap<(Arc<str>, ScramMechanism), Arc<ScramCredential>>);

impl ScramCredentials {
    pub(super) fn get(&self, name: &str, mechanism: ScramMechanism) -> Option<&ScramCredential> {
        self.0.get(&(name.into(), mechanism)).map(|credential| &**credential)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All credentials, ordered by user name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, ScramMechanism, &ScramCredential)> {
        self.0.iter().map(|((name, mechanism), it)| (&**name, *mechanism, &**it))
    }

    /// Sets or removes a credential. A mechanism that this server does not know has no effect.
    pub(super) fn apply(
        &mut self,
        key: &ScramCredentialKey<'_>,
        value: Option<&ScramCredentialValue<'_>>,
    ) {
        let Some(mechanism) = ScramMechanism::by_number(key.mechanism) else { return };
        let place = (Arc::from(&*key.name), mechanism);
        let Some(value) = value else { return drop(self.0.remove(&place)) };
        let credential = ScramCredential {
            salt: value.salt.to_vec(),
            stored_key: value.stored_key.to_vec(),
            server_key: value.server_key.to_vec(),
            iterations: value.iterations,
        };
        self.0.insert(place, Arc::new(credential));
    }

    pub(super) fn records(&self) -> impl Iterator<Item = ClusterRecord<'static>> {
        self.iter().map(|(name, mechanism, it)| record(name, mechanism, Some(it)))
    }
}

/// Users of the image.
impl ClusterImage {
    /// The credential of a user for a mechanism.
    pub fn scram_credential(
        &self,
        name: &str,
        mechanism: ScramMechanism,
    ) -> Option<&ScramCredential> {
        self.scram_credentials.get(name, mechanism)
    }

    pub(super) fn put_credential(
        &mut self,
        key: &ScramCredentialKey<'_>,
        value: Option<&ScramCredentialValue<'_>>,
    ) {
        self.scram_credentials.apply(key, value);
    }

    /// All credentials, ordered by user name.
    pub fn scram_credentials(
        &self,
    ) -> impl Iterator<Item = (&str, ScramMechanism, &ScramCredential)> {
        self.scram_credentials.iter()
    }

    /// The number of credentials of all users.
    pub fn scram_credential_count(&self) -> usize {
        self.scram_credentials.len()
    }
}

/// The record that sets or removes a credential.
pub(super) fn record(
    name: &str,
    mechanism: ScramMechanism,
    credential: Option<&ScramCredential>,
) -> ClusterRecord<'static> {
    let key = ScramCredentialKey { name: name.to_owned().into(), mechanism: mechanism.number() };
    let value = |it: &ScramCredential| ScramCredentialValue {
        salt: it.salt.clone().into(),
        stored_key: it.stored_key.clone().into(),
        server_key: it.server_key.clone().into(),
        iterations: it.iterations,
    };
    ClusterRecord::ScramCredential(key, credential.map(value))
}
