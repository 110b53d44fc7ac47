//! A listener's requirements for the authentication of clients.

use super::mechanism::Mechanism;
use super::oauthbearer::Bearer;
use super::plain::PlainUsers;

/// How clients of a listener authenticate.
#[derive(Debug, Clone)]
pub(crate) struct Sasl {
    pub(crate) mechanisms: Vec<Mechanism>,
    pub(crate) plain_users: PlainUsers,
    /// None if the listener does not have OAUTHBEARER.
    pub(crate) bearer: Option<Bearer>,
    /// How long a client stays authenticated, in ms, by mechanism; forever if the value is not
    /// positive.
    pub(crate) lifetimes_ms: Vec<(Mechanism, i64)>,
    /// The longest frame of a client that has not authenticated yet, in bytes.
    pub(crate) receive_bytes_max: u32,
}

impl Sasl {
    /// The names of the mechanisms, in the order of the config.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = &'static str> {
        self.mechanisms.iter().map(|mechanism| mechanism.name())
    }

    /// How long a client stays authenticated, in ms; None means forever.
    pub(crate) fn lifetime_ms(&self, mechanism: Mechanism) -> Option<i64> {
        let (_, ms) = self.lifetimes_ms.iter().find(|(of, _)| *of == mechanism)?;
        Some(*ms).filter(|ms| *ms > 0)
    }
}
