//! `--command-config`: the keys of Kafka's `client.properties` that say how to connect. A key of
//! this kind that is not understood is an error, because it must not be ignored silently.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_config_text::jaas::LoginModule;
use muster_config_text::properties::{self, Parsed};

use super::endpoint::is_token;
use super::{Bearer, Endpoint, Mechanism, OAUTHBEARER, Password, Pem, Sasl, Security};
use super::{Source, Tls, Tokens, Verify};

/// The prefixes of the keys that concern the connection.
const OURS: [&str; 4] = ["security.", "sasl.", "ssl.", "config.providers"];
const PLAIN_MODULE: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM_MODULE: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const BEARER_MODULE: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
/// The two class names of Kafka's own handler, which fetches tokens from an endpoint.
const BEARER_HANDLERS: [&str; 2] = [
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
];
const EXTENSION: &str = "extension_";
const UNSECURED_SUBJECT: &str = "unsecuredLoginStringClaim_sub";

/// The settings of a file.
#[derive(Debug)]
pub struct CommandConfig {
    pub security: Security,
    /// Keys that do not concern the connection, and so have no effect.
    pub unused: Vec<String>,
}

/// Reads the configuration at `path`. If it names a token endpoint, fetches the first token.
///
/// # Errors
/// The file can't be read, a key or its value is not understood, or the first token can't be
/// fetched. The error is a sentence for the user.
pub fn load(path: &Path) -> Result<CommandConfig, String> {
    let named = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| named(format!("can't be read: {error}")))?;
    parse(&text).map_err(named)
}

fn parse(text: &[u8]) -> Result<CommandConfig, String> {
    // As in Java, each byte of the file is a character.
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    let at = |(line, pair): Parsed| pair.map_err(|why| format!("line {line}: {why}"));
    let mut keys = Keys(properties::parse(&text).map(at).collect::<Result<_, _>>()?);
    let (encrypted, authenticated) = protocol(&mut keys)?;
    let tls = tls(&mut keys)?;
    let login = login(&mut keys)?;
    let unused = keys.left()?;
    // The first token is fetched only once the whole file is understood.
    let sasl = authenticated.then(|| login.sasl()).transpose()?;
    Ok(CommandConfig { security: Security { tls: encrypted.then_some(tls), sasl }, unused })
}

/// Whether the protocol uses TLS, and whether it uses SASL.
fn protocol(keys: &mut Keys) -> Result<(bool, bool), String> {
    const KEY: &str = "security.protocol";
    let value = keys.take(KEY).unwrap_or_else(|| "PLAINTEXT".into());
    match value.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => Ok((false, false)),
        "SSL" => Ok((true, false)),
        "SASL_PLAINTEXT" => Ok((false, true)),
        "SASL_SSL" => Ok((true, true)),
        _ => Err(format!("{KEY} cannot be {value}")),
    }
}

fn tls(keys: &mut Keys) -> Result<Tls, String> {
    let ca = store(keys, "truststore", "ssl.truststore.certificates")?;
    let identity = identity(keys)?;
    let verify = match keys.take("ssl.endpoint.identification.algorithm").as_deref() {
        None | Some("https" | "HTTPS") => Verify::Name,
        Some("") => Verify::Authority,
        Some(other) => {
            return Err(format!("ssl.endpoint.identification.algorithm cannot be {other}"));
        }
    };
    Ok(Tls { ca, identity, server_name: None, verify })
}

/// The PEM of a trust store or key store: the file that `ssl.STORE.location` names, or the text
/// that is the value of the key `inline`.
fn store(keys: &mut Keys, store: &str, inline: &str) -> Result<Option<Pem>, String> {
    let type_key = format!("ssl.{store}.type");
    let location_key = format!("ssl.{store}.location");
    let kind = keys.take(&type_key);
    let location = keys.take(&location_key);
    let text = keys.take(inline);
    let is_pem = kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("PEM"));
    match (location, text) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!("{location_key} and {inline} exclude each other")),
        _ if !is_pem => Err(format!(
            "{type_key} has to be PEM: muster-load cannot read {}",
            kind.as_deref().unwrap_or("JKS, which it is if it is left out")
        )),
        (Some(path), None) => Ok(Some(Pem::File(path.into()))),
        (None, Some(text)) => Ok(Some(Pem::of_config(inline, &text))),
    }
}

/// The client's certificate chain and its key. If the store is a file, this file has both.
fn identity(keys: &mut Keys) -> Result<Option<(Pem, Pem)>, String> {
    const KEY: &str = "ssl.keystore.key";
    const CHAIN: &str = "ssl.keystore.certificate.chain";
    let key = keys.take(KEY);
    match (store(keys, "keystore", CHAIN)?, key) {
        (None, None) => Ok(None),
        (Some(file @ Pem::File(_)), None) => Ok(Some((file.clone(), file))),
        (Some(chain @ Pem::Text { .. }), Some(key)) => Ok(Some((chain, Pem::of_config(KEY, &key)))),
        (Some(Pem::File(_)), Some(_)) => {
            Err(format!("ssl.keystore.location and {KEY} exclude each other"))
        }
        (Some(Pem::Text { .. }), None) => Err(format!("{CHAIN} needs {KEY}")),
        (None, Some(_)) => Err(format!("{KEY} needs {CHAIN}")),
    }
}

/// The keys for the login.
struct LoginKeys {
    mechanism: String,
    jaas: Option<String>,
    handler: Option<String>,
    endpoint: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    scope: Option<String>,
}

fn login(keys: &mut Keys) -> Result<LoginKeys, String> {
    Ok(LoginKeys {
        mechanism: keys.take("sasl.mechanism").unwrap_or_else(|| "GSSAPI".into()),
        jaas: keys.take("sasl.jaas.config"),
        handler: keys.take("sasl.login.callback.handler.class"),
        endpoint: keys.take("sasl.oauthbearer.token.endpoint.url"),
        client_id: keys.take("sasl.oauthbearer.client.credentials.client.id"),
        client_secret: keys.take("sasl.oauthbearer.client.credentials.client.secret"),
        scope: keys.take("sasl.oauthbearer.scope"),
    })
}

impl LoginKeys {
    fn sasl(self) -> Result<Sasl, String> {
        let jaas = self.jaas.as_deref().ok_or("sasl.jaas.config is missing")?;
        let login =
            LoginModule::parse(jaas).map_err(|error| format!("sasl.jaas.config: {error}"))?;
        if self.mechanism == OAUTHBEARER {
            return self.bearer(login).map(Sasl::Bearer);
        }
        let mechanism = Mechanism::ALL.into_iter().find(|known| known.name() == self.mechanism);
        let mechanism = mechanism.ok_or_else(|| {
            let known: Vec<_> = Mechanism::ALL.iter().map(|known| known.name()).collect();
            format!(
                "sasl.mechanism {} is not among {} and {OAUTHBEARER}",
                self.mechanism,
                known.join(", ")
            )
        })?;
        let module = match mechanism {
            Mechanism::Plain => PLAIN_MODULE,
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => SCRAM_MODULE,
        };
        let mut options = Options::of(login, module)?;
        let password = Password {
            mechanism,
            username: options.needed("username")?,
            password: options.needed("password")?,
        };
        options.end().map(|()| Sasl::Password(password))
    }

    fn bearer(self, login: LoginModule) -> Result<Bearer, String> {
        if let Some(other) = self.handler.as_deref().filter(|name| !BEARER_HANDLERS.contains(name))
        {
            return Err(format!("sasl.login.callback.handler.class: {other} is not known"));
        }
        let mut options = Options::of(login, BEARER_MODULE)?;
        let extensions = options.extensions()?;
        let source = match self.endpoint.clone() {
            Some(url) => self.endpoint_of(url, &mut options)?,
            None => Source::Unsecured(options.take(UNSECURED_SUBJECT).ok_or_else(|| {
                format!(
                    "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, or {UNSECURED_SUBJECT} \
                     in sasl.jaas.config"
                )
            })?),
        };
        options.end()?;
        Ok(Bearer { tokens: Arc::new(Tokens::of(source)?), extensions })
    }

    /// The source of tokens at this URL. A `file:` URL names a file with the token. Any other URL
    /// is a token endpoint.
    fn endpoint_of(self, url: String, options: &mut Options) -> Result<Source, String> {
        if let Some(path) = url.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let token = std::fs::read_to_string(path)
                .map_err(|error| format!("the token file {path} can't be read: {error}"))?;
            return fixed(token.trim());
        }
        let id = self.client_id.or_else(|| options.take("clientId"));
        let secret = self.client_secret.or_else(|| options.take("clientSecret"));
        let scope = self.scope.or_else(|| options.take("scope"));
        let ca = options.pem()?;
        let missing = |name: &str| format!("the {name} for {url} is missing");
        Ok(Source::Endpoint(Endpoint {
            client_id: id.ok_or_else(|| missing("client id"))?,
            client_secret: secret.ok_or_else(|| missing("client secret"))?,
            scope,
            ca,
            url,
        }))
    }
}

/// # Errors
/// The token is empty, or has characters that cannot be sent. The error is a sentence for the user.
pub fn fixed(token: &str) -> Result<Source, String> {
    if is_token(token) {
        Ok(Source::Fixed(token.to_owned()))
    } else {
        Err("the token is empty, or has characters that no token has".into())
    }
}

/// The keys of the file that have not been read yet.
struct Keys(BTreeMap<String, String>);

impl Keys {
    fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// The remaining keys, which do not concern the connection.
    ///
    /// # Errors
    /// A key that concerns the connection remains. The error is a sentence for the user.
    fn left(self) -> Result<Vec<String>, String> {
        let is_ours = |key: &String| OURS.iter().any(|ours| key.starts_with(ours));
        let (ours, others): (Vec<_>, Vec<_>) = self.0.into_keys().partition(is_ours);
        match ours.as_slice() {
            [] => Ok(others),
            [key] => Err(format!("{key} is not understood")),
            keys => Err(format!("{} are not understood", keys.join(", "))),
        }
    }
}

/// The options of the login module that have not been read yet.
struct Options(BTreeMap<String, String>);

impl Options {
    fn of(login: LoginModule, module: &str) -> Result<Self, String> {
        if login.class == module {
            Ok(Self(login.options.into_iter().collect()))
        } else {
            Err(format!("sasl.jaas.config: {} is not {module}", login.class))
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn needed(&mut self, name: &str) -> Result<String, String> {
        self.take(name).ok_or_else(|| format!("sasl.jaas.config: {name} is missing"))
    }

    /// The extensions. As in Kafka's clients, names consist of letters, and values of printable
    /// characters.
    fn extensions(&mut self) -> Result<Vec<(String, String)>, String> {
        let all = std::mem::take(&mut self.0);
        let mut extensions = Vec::new();
        for (name, value) in all {
            let Some(bare) = name.strip_prefix(EXTENSION) else {
                self.0.insert(name, value);
                continue;
            };
            let named = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphabetic());
            let printable = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
            if !named || bare == "auth" || value.is_empty() || !value.bytes().all(printable) {
                return Err(format!("sasl.jaas.config: {name} is not an extension of a token"));
            }
            extensions.push((bare.to_owned(), value));
        }
        Ok(extensions)
    }

    /// The trusted authorities for the token endpoint.
    fn pem(&mut self) -> Result<Option<Pem>, String> {
        let mut keys = Keys(std::mem::take(&mut self.0));
        let pem = store(&mut keys, "truststore", "ssl.truststore.certificates");
        self.0 = keys.0;
        pem.map_err(|error| format!("sasl.jaas.config: {error}"))
    }

    fn end(self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(option) => Err(format!("sasl.jaas.config: {option} is not understood")),
        }
    }
}
