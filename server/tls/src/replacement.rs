//! Replaces a listener's TLS at a client's request (KIP-978). As in Kafka, the new TLS must be
//! usable. Its certificate must have all names of the old certificate, unless [`NameChanges`]
//! permits that names change.

use crate::error::LoadError;
use crate::name::Names;
use crate::settings::{ClientAuth, NameChanges, Settings, Tls};

impl Settings {
    /// Loads the TLS that is to replace `before` on a listener. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The settings cannot be used, or must not replace `before`. The text names config, file and
    /// reason.
    pub fn load_instead(&self, before: &Tls, now: i64) -> Result<Tls, LoadError> {
        let tls = self.load(now)?;
        self.check_names(&before.names, &tls.names)?;
        if self.trust_store.is_set() {
            if !before.has_trust_store {
                let reason = "a listener that was started without a trust store cannot get one";
                return Err(LoadError::new("ssl.truststore", reason));
            }
            if self.client_auth == ClientAuth::None {
                self.trust_store.authorities(now)?;
            }
        }
        Ok(tls)
    }

    fn check_names(&self, before: &Names, after: &Names) -> Result<(), LoadError> {
        let NameChanges { subject, alternative } = self.name_changes;
        if !subject && !before.subject.eq_ignore_ascii_case(&after.subject) {
            let reason = format!(
                "the DistinguishedName does not match: existing={}, new={} \
                 (ssl.allow.dn.changes=true allows it)",
                before.subject, after.subject
            );
            return Err(LoadError::new("ssl.keystore", reason));
        }
        if !alternative && !after.alternative.is_superset(&before.alternative) {
            let words = |names: &Names| Vec::from_iter(names.alternative.clone()).join(", ");
            let reason = format!(
                "the SubjectAltNames do not match: existing=[{}], new=[{}] \
                 (ssl.allow.san.changes=true allows it)",
                words(before),
                words(after)
            );
            return Err(LoadError::new("ssl.keystore", reason));
        }
        Ok(())
    }
}
