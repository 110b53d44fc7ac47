//! The configs about the clients of a listener.

use super::{Config, Listener, SecurityProtocol, ServedListener};
use crate::security::{LoginModule, Mechanism, PlainUsers, Sasl};

/// How the clients of a listener are let in.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSecurity {
    pub(crate) name: String,
    pub(crate) protocol: SecurityProtocol,
    /// None if the listener asks for no password.
    pub(crate) sasl: Option<Sasl>,
}

const MECHANISMS: &str = "sasl.enabled.mechanisms";
const LIFETIME: &str = "connections.max.reauth.ms";
const JAAS: &str = "sasl.jaas.config";
const PLAIN_MODULE: &str = "PlainLoginModule";

/// The options of the login module of PLAIN that name a user.
const USER_OPTION: &str = "user_";

impl ListenerSecurity {
    /// Those of the listeners of a server, in order.
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
    /// A key, and what is wrong with its value.
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
    let lifetime = |mechanism: &Mechanism| {
        let of_mechanism = config.of_mechanism(listener, *mechanism, LIFETIME);
        let text = of_mechanism.map(|secret| secret.text().trim().parse());
        let text = text.transpose().map_err(|_| {
            (LIFETIME, format!("{LIFETIME} of {mechanism} on listener {listener}: no number"))
        })?;
        Ok((*mechanism, text.unwrap_or(own.connections_max_reauth_ms)))
    };
    Ok(Sasl {
        lifetimes_ms: mechanisms.iter().map(lifetime).collect::<Result<_, _>>()?,
        mechanisms,
        plain_users,
        receive_bytes_max: own.sasl_server_max_receive_size.unsigned_abs(),
    })
}

fn not_served(listener: &str, name: &str) -> String {
    let served: Vec<_> = Mechanism::ALL.iter().map(|mechanism| mechanism.name()).collect();
    format!("{MECHANISMS}={name} for listener {listener}: muster serves {}", served.join(", "))
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
    let user =
        |(key, password): (String, _)| Some((key.strip_prefix(USER_OPTION)?.into(), password));
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
