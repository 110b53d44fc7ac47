//! The configs that decide how clients of a listener authenticate.

use super::{Config, Listener, SecurityProtocol, ServedListener};
use crate::key_fetcher::KeysUrl;
use crate::security::{Bearer, Mechanism, PlainUsers, Sasl, Secret, TokenRules};
use muster_config_text::jaas::LoginModule;
use muster_tls::TrustStore;
use std::path::PathBuf;

/// The security of a listener.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSecurity {
    pub(crate) name: String,
    pub(crate) protocol: SecurityProtocol,
    /// None if the listener does not use SASL.
    pub(crate) sasl: Option<Sasl>,
}

const MECHANISMS: &str = "sasl.enabled.mechanisms";
const JAAS: &str = "sasl.jaas.config";
const HANDLER: &str = "sasl.server.callback.handler.class";
const JWKS: &str = "sasl.oauthbearer.jwks.endpoint.url";
const FILE_URL: &str = "file://";
const HTTPS_URL: &str = "https://";

/// Kafka's class that verifies tokens with public keys. muster implements no other handler.
const TOKEN_HANDLER: &str = "OAuthBearerValidatorCallbackHandler";
const PLAIN_MODULE: &str = "PlainLoginModule";

/// An option of PLAIN's login module with this prefix defines a user.
const USER_OPTION: &str = "user_";

impl ListenerSecurity {
    /// The security of all listeners of a server, in order.
    pub(crate) fn of_all(config: &Config) -> Vec<Self> {
        let listeners = config.served.iter().flat_map(|served| &served.listeners);
        let of = |it: &ServedListener| {
            let (name, address) = (it.name.clone(), it.listen.clone());
            let listener = Listener { name, protocol: it.protocol, address };
            Self::of(config, &listener)
        };
        listeners
            .map(|it| of(it).unwrap_or_else(|(_, why)| unreachable!("checked: {why}")))
            .collect()
    }

    /// # Errors
    /// The invalid key and the reason.
    pub(crate) fn of(config: &Config, listener: &Listener) -> Result<Self, (&'static str, String)> {
        let sasl = match listener.protocol {
            SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl => {
                Some(sasl(config, &listener.name)?)
            }
            SecurityProtocol::Plaintext | SecurityProtocol::Ssl => None,
        };
        Ok(Self { name: listener.name.clone(), protocol: listener.protocol, sasl })
    }
}

fn sasl(config: &Config, listener: &str) -> Result<Sasl, (&'static str, String)> {
    let own = config.of_listener(listener);
    let named = own.sasl_enabled_mechanisms.iter().map(|name| {
        Mechanism::by_name(name).ok_or_else(|| (MECHANISMS, not_served(listener, name)))
    });
    let mechanisms: Vec<_> = named.collect::<Result<_, _>>()?;
    if mechanisms.is_empty() {
        return Err((MECHANISMS, format!("{MECHANISMS}: none for listener {listener}")));
    }
    let plain_users = if mechanisms.contains(&Mechanism::Plain) {
        plain_users(config, listener).map_err(|why| (JAAS, why))?
    } else {
        PlainUsers::new()
    };
    let bearer = mechanisms.contains(&Mechanism::OAuthBearer).then(|| bearer(config, listener));
    let lifetime = |mechanism: &Mechanism| {
        let own = config.of_listener_and_mechanism(listener, *mechanism);
        (*mechanism, own.connections_max_reauth_ms)
    };
    Ok(Sasl {
        lifetimes_ms: mechanisms.iter().map(lifetime).collect(),
        mechanisms,
        plain_users,
        bearer: bearer.transpose()?,
        receive_bytes_max: own.sasl_server_max_receive_size.unsigned_abs(),
    })
}

fn not_served(listener: &str, name: &str) -> String {
    let served: Vec<_> = Mechanism::ALL.iter().map(|mechanism| mechanism.name()).collect();
    format!("{MECHANISMS}={name} for listener {listener}: muster serves {}", served.join(", "))
}

/// Reads the rules by which tokens are checked. The public keys for their signatures are loaded
/// later.
fn bearer(config: &Config, listener: &str) -> Result<Bearer, (&'static str, String)> {
    let handler = config.of_mechanism(listener, Mechanism::OAuthBearer, HANDLER);
    if handler.is_some_and(|it| it.text().rsplit('.').next() != Some(TOKEN_HANDLER)) {
        let why =
            format!("{HANDLER} of OAUTHBEARER on listener {listener}: muster checks tokens as");
        return Err((HANDLER, format!("{why} Kafka's {TOKEN_HANDLER} does, and runs no other")));
    }
    config.token_keys_source(listener).map_err(|why| (JWKS, why))?;
    let own = config.of_listener_and_mechanism(listener, Mechanism::OAuthBearer);
    let rules = TokenRules {
        audiences: own.sasl_oauthbearer_expected_audience,
        issuer: own.sasl_oauthbearer_expected_issuer,
        skew_seconds: own.sasl_oauthbearer_clock_skew_seconds.into(),
        sub_claim: own.sasl_oauthbearer_sub_claim_name,
        scope_claim: own.sasl_oauthbearer_scope_claim_name,
    };
    Ok(Bearer { rules, keys: Default::default() })
}

/// The source of the keys that a listener uses to verify tokens.
pub(crate) enum KeysSource {
    File(PathBuf),
    Https(KeysUrl),
}

impl Config {
    /// The source of the keys that a listener uses to verify tokens.
    ///
    /// # Errors
    /// No source is configured, its kind is unknown, or the options of the login module are
    /// malformed.
    pub(crate) fn token_keys_source(&self, listener: &str) -> Result<KeysSource, String> {
        let own = self.of_listener_and_mechanism(listener, Mechanism::OAuthBearer);
        let url = own.sasl_oauthbearer_jwks_endpoint_url.clone().unwrap_or_default();
        if url.is_empty() {
            return Err(format!("{JWKS} is missing: listener {listener} has OAUTHBEARER"));
        }
        if let Some(path) = behind(&url, FILE_URL).filter(|path| path.starts_with('/')) {
            return Ok(KeysSource::File(path.into()));
        }
        if behind(&url, HTTPS_URL).is_some_and(|host| !host.is_empty()) {
            let trust = self.trust_of_keys(listener)?;
            return Ok(KeysSource::Https(KeysUrl {
                url,
                refresh_ms: own.sasl_oauthbearer_jwks_endpoint_refresh_ms,
                backoff_ms: own.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
                backoff_max_ms: own.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
                trust,
            }));
        }
        Err(format!(
            "{JWKS}={url} for listener {listener}: it is neither a file, such as \
             file:///etc/muster/jwks.json, nor an https:// URL"
        ))
    }

    /// The certificate authorities that muster trusts when it fetches the keys from their server.
    /// As in Kafka, options of the login module name them; None if no option does.
    fn trust_of_keys(&self, listener: &str) -> Result<Option<TrustStore>, String> {
        let Some(text) = self.of_mechanism(listener, Mechanism::OAuthBearer, JAAS) else {
            return Ok(None);
        };
        let module = LoginModule::parse(text.text())
            .map_err(|why| format!("{JAAS} of OAUTHBEARER for listener {listener}: {why}"))?;
        let option = |name: &str| {
            let key = format!("ssl.truststore.{name}");
            let mut options = module.options.iter();
            options.find(|(option, _)| *option == key).map(|(_, it)| it.clone())
        };
        let store = TrustStore {
            kind: option("type").unwrap_or_else(|| "JKS".to_owned()).to_uppercase(),
            location: option("location").map(PathBuf::from),
            certificates: option("certificates"),
            password: option("password"),
        };
        let is_set = store.location.is_some() || store.certificates.is_some();
        Ok(is_set.then_some(store))
    }
}

/// The part of a URL after a scheme; None if the URL has another scheme.
fn behind<'u>(url: &'u str, scheme: &str) -> Option<&'u str> {
    let (begins, rest) = url.split_at_checked(scheme.len())?;
    begins.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn plain_users(config: &Config, listener: &str) -> Result<PlainUsers, String> {
    let key = format!("listener.name.{}.plain.{JAAS}", listener.to_ascii_lowercase());
    let text = config
        .of_mechanism(listener, Mechanism::Plain, JAAS)
        .ok_or_else(|| format!("{key} is missing: it has the users of PLAIN"))?;
    let module = LoginModule::parse(text.text()).map_err(|why| format!("{key}: {why}"))?;
    if module.class.rsplit('.').next() != Some(PLAIN_MODULE) {
        return Err(format!("{key}: its login module is not Kafka's {PLAIN_MODULE}"));
    }
    let options = module.options.into_iter();
    let user = |(key, password): (String, String)| {
        Some((key.strip_prefix(USER_OPTION)?.into(), Secret::new(&password)))
    };
    Ok(options.filter_map(user).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::ScramMechanism;

    #[test]
    fn keys_of_a_listener_and_of_a_mechanism_win() {
        let words = [
            "listeners=SASL_PLAINTEXT://:9092",
            "sasl.enabled.mechanisms=GSSAPI",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            "plain.sasl.jaas.config=a.PlainLoginModule required user_alice=\"secret\" other=x;",
            "connections.max.reauth.ms=1000",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=2000",
            "listener.name.sasl_plaintext.sasl.server.max.receive.size=5",
        ];
        let config = Config::load("", &words.map(str::to_owned)).unwrap();
        let listener = config.client_listeners().unwrap().remove(0);
        let sasl = ListenerSecurity::of(&config, &listener).unwrap().sasl.unwrap();
        let lifetime = |mechanism| sasl.lifetime_ms(mechanism);
        assert_eq!(lifetime(Mechanism::Plain), Some(2_000));
        assert_eq!(lifetime(Mechanism::Scram(ScramMechanism::Sha256)), Some(1_000));
        assert_eq!(lifetime(Mechanism::Scram(ScramMechanism::Sha512)), None, "it is not enabled");
        assert_eq!(sasl.receive_bytes_max, 5);
        assert_eq!(sasl.plain_users.len(), 1);
        assert!(!format!("{config:?} {sasl:?}").contains("secret"));
    }
}
