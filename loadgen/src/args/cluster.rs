//! The options that choose a cluster, and those that say how to connect to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use loadgen::security::{
    self, Bearer, Endpoint, Password, Pem, Sasl, Security, Source, Tls, Tokens, Verify, properties,
};

use super::duration;

/// The names of two environment variables. A secret can be in one of them, instead of on the
/// command line.
const PASSWORD: &str = "MUSTER_LOAD_PASSWORD";
const CLIENT_SECRET: &str = "MUSTER_LOAD_CLIENT_SECRET";
/// Options whose values are never shown.
pub(crate) const SECRETS: [&str; 3] = ["--password", "--oauth-token", "--oauth-client-secret"];

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// Servers to ask first.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_delimiter = ',')]
    pub(crate) bootstrap: Vec<String>,
    /// Connects as this file says, in the form of Kafka's client.properties.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tls", "sasl_mechanism"])]
    pub(crate) command_config: Option<PathBuf>,
    /// How long to wait for a connection.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// How long to wait for an answer; joins get the rebalance timeout on top.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
    /// Connects with TLS.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Trusts the authorities in this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Presents this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name to expect in the server's certificate, instead of the host connected to.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub(crate) tls_server_name: Option<String>,
    /// Trusts any certificate. For test clusters only.
    #[arg(long, requires = "tls")]
    pub(crate) tls_insecure: bool,
    /// How to log in.
    #[arg(long, value_name = "MECHANISM")]
    pub(crate) sasl_mechanism: Option<Mechanism>,
    /// The user to log in as.
    #[arg(long, value_name = "NAME", requires = "sasl_mechanism")]
    pub(crate) username: Option<String>,
    /// The password, or @FILE to read it from. Better in the environment: MUSTER_LOAD_PASSWORD.
    #[arg(long, value_name = "TEXT|@FILE", requires = "username")]
    pub(crate) password: Option<String>,
    #[command(flatten)]
    pub(crate) oauth: OAuth,
    /// CPUs to generate the load on, as in 3 or 2-5,7. The last one by default.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<CpuList>,
    /// Members that share a connection; not for classic members, whose joins block it.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub(crate) members_per_connection: u32,
}

/// Where the token of OAUTHBEARER comes from.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct OAuth {
    /// The token of OAUTHBEARER, or @FILE to read it from.
    #[arg(long, value_name = "TEXT|@FILE", requires = "sasl_mechanism")]
    pub(crate) oauth_token: Option<String>,
    /// Gets the tokens of OAUTHBEARER here, for the client's credentials; trusts --tls-ca, too.
    #[arg(long, value_name = "URL", conflicts_with = "oauth_token", requires = "oauth_client_id")]
    pub(crate) oauth_endpoint: Option<String>,
    /// The id of the client.
    #[arg(long, value_name = "TEXT", requires = "oauth_endpoint")]
    pub(crate) oauth_client_id: Option<String>,
    /// Its secret, or @FILE. Better in the environment: MUSTER_LOAD_CLIENT_SECRET.
    #[arg(long, value_name = "TEXT|@FILE", requires = "oauth_endpoint")]
    pub(crate) oauth_client_secret: Option<String>,
    /// The scope to ask for.
    #[arg(long, value_name = "TEXT", requires = "oauth_endpoint")]
    pub(crate) oauth_scope: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Mechanism {
    Plain,
    #[value(name = "scram-sha-256")]
    ScramSha256,
    #[value(name = "scram-sha-512")]
    ScramSha512,
    #[value(name = "oauthbearer")]
    OAuthBearer,
}

/// Secrets of the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    password: Option<String>,
    client_secret: Option<String>,
}

impl Secrets {
    pub(crate) fn of_environment() -> Self {
        let (password, client_secret) = (std::env::var(PASSWORD), std::env::var(CLIENT_SECRET));
        Self { password: password.ok(), client_secret: client_secret.ok() }
    }
}

impl Cluster {
    /// Returns the TLS and SASL settings. Reads the files that they name, and fetches the first
    /// token if there is a token endpoint. Also returns sentences for the user about settings that
    /// have no effect.
    ///
    /// # Errors
    /// A setting is missing, can't be read or is not understood, or the first token can't be
    /// fetched. The error is a sentence for the user.
    pub(crate) fn security(&self, secrets: Secrets) -> Result<(Security, Vec<String>), String> {
        if let Some(file) = &self.command_config {
            let config = properties::load(file)?;
            return Ok((config.security, unused(file, &config.unused)));
        }
        let sasl =
            self.sasl_mechanism.map(|mechanism| self.sasl(mechanism, secrets)).transpose()?;
        Ok((Security { tls: self.tls.then(|| self.tls()), sasl }, Vec::new()))
    }

    fn tls(&self) -> Tls {
        let pem = |path: &Option<PathBuf>| path.clone().map(Pem::File);
        Tls {
            ca: pem(&self.tls_ca),
            identity: pem(&self.tls_cert).zip(pem(&self.tls_key)),
            server_name: self.tls_server_name.clone(),
            verify: if self.tls_insecure { Verify::Nothing } else { Verify::Name },
        }
    }

    fn sasl(&self, mechanism: Mechanism, secrets: Secrets) -> Result<Sasl, String> {
        let mechanism = match mechanism {
            Mechanism::Plain => security::Mechanism::Plain,
            Mechanism::ScramSha256 => security::Mechanism::ScramSha256,
            Mechanism::ScramSha512 => security::Mechanism::ScramSha512,
            Mechanism::OAuthBearer => return self.bearer(secrets).map(Sasl::Bearer),
        };
        let name = mechanism.name();
        let username = self.username.clone();
        let password = secret(self.password.as_deref(), "password")?.or(secrets.password);
        Ok(Sasl::Password(Password {
            mechanism,
            username: username.ok_or_else(|| format!("{name} needs a user: --username"))?,
            password: password
                .ok_or_else(|| format!("--username needs a password: --password or {PASSWORD}"))?,
        }))
    }

    fn bearer(&self, secrets: Secrets) -> Result<Bearer, String> {
        let oauth = &self.oauth;
        let source = match (secret(oauth.oauth_token.as_deref(), "token")?, &oauth.oauth_endpoint) {
            (Some(token), _) => properties::fixed(&token)?,
            (None, Some(url)) => self.endpoint(url, secrets)?,
            (None, None) => {
                return Err("OAUTHBEARER needs a token: --oauth-token or --oauth-endpoint".into());
            }
        };
        Ok(Bearer { tokens: Arc::new(Tokens::of(source)?), extensions: Vec::new() })
    }

    fn endpoint(&self, url: &str, secrets: Secrets) -> Result<Source, String> {
        let oauth = &self.oauth;
        let said = secret(oauth.oauth_client_secret.as_deref(), "client secret")?;
        let client_secret = said.or(secrets.client_secret).ok_or_else(|| {
            format!("--oauth-client-id needs a secret: --oauth-client-secret or {CLIENT_SECRET}")
        })?;
        Ok(Source::Endpoint(Endpoint {
            url: url.to_owned(),
            client_id: oauth.oauth_client_id.clone().unwrap_or_default(),
            client_secret,
            scope: oauth.oauth_scope.clone(),
            ca: self.tls_ca.clone().map(Pem::File),
        }))
    }
}

/// The text itself, or the contents of the file if the text is `@FILE`.
fn secret(text: Option<&str>, what: &str) -> Result<Option<String>, String> {
    match text.map(|text| (text, text.strip_prefix('@'))) {
        Some((_, Some(file))) => match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(format!("the {what} file {file} can't be read: {error}")),
        },
        Some((text, None)) => Ok(Some(text.to_owned())),
        None => Ok(None),
    }
}

fn unused(file: &Path, keys: &[String]) -> Vec<String> {
    if keys.is_empty() {
        return Vec::new();
    }
    let keys = keys.join(", ");
    vec![format!("{}: {keys}: without effect, not about the connection", file.display())]
}

/// CPU numbers in the form of taskset: `3`, `2-5,7`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// Each CPU number must be less than this. No machine has more CPUs. Without the limit, a typing
/// error could use up all memory, because a range is stored as a list of its numbers.
const CPUS: usize = 4096;

impl std::str::FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not a list of CPUs: write 3 or 2-5,7");
        let number = |part: &str| part.trim().parse().ok().filter(|&cpu: &usize| cpu < CPUS);
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first).zip(number(last)).ok_or_else(wrong)?;
            cpus.extend(range.0..=range.1);
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() { Err(wrong()) } else { Ok(Self(cpus)) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::CommandLine;
    use super::*;

    fn cluster(words: &str) -> Result<Cluster, String> {
        let words = std::iter::once("muster-load").chain(words.split_whitespace());
        let line = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(line.run.cluster)
    }

    fn sasl(words: &str, secrets: Secrets) -> Result<Sasl, String> {
        Ok(cluster(words)?.security(secrets)?.0.sasl.unwrap())
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!("3".parse(), Ok(CpuList(vec![3])));
        assert_eq!("7,2-4,3".parse(), Ok(CpuList(vec![2, 3, 4, 7])));
        for wrong in ["", "a", "3-", "4-2", "99999999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_comes_from_the_line_a_file_or_the_environment() {
        let password = |more: &str, environment: Option<&str>| {
            let secrets =
                Secrets { password: environment.map(str::to_owned), ..Secrets::default() };
            let words = format!("--sasl-mechanism scram-sha-256 --username u {more}");
            match sasl(&words, secrets)? {
                Sasl::Password(login) => Ok(login.password),
                Sasl::Bearer(_) => Err("no password".to_owned()),
            }
        };
        assert_eq!(password("--password p", Some("e")).unwrap(), "p");
        assert_eq!(password("", Some("e")).unwrap(), "e");
        assert!(password("", None).unwrap_err().contains("needs a password"));

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from file\n").unwrap();
        let more = format!("--password @{}", file.path().display());
        assert_eq!(password(&more, None).unwrap(), "from file");
        assert!(password("--password @/none", None).unwrap_err().contains("can't be read"));
    }

    #[test]
    fn a_token_comes_from_the_line_or_a_file() {
        let token = |more: &str| {
            let words = format!("--sasl-mechanism oauthbearer {more}");
            match sasl(&words, Secrets::default())? {
                Sasl::Bearer(bearer) => bearer.tokens.current(),
                Sasl::Password(_) => Err("no token".to_owned()),
            }
        };
        assert_eq!(&*token("--oauth-token abc").unwrap(), "abc");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "d.e.f\n").unwrap();
        let more = format!("--oauth-token @{}", file.path().display());
        assert_eq!(&*token(&more).unwrap(), "d.e.f");
        for (more, named) in [
            ("", "--oauth-token or --oauth-endpoint"),
            ("--oauth-token a\u{1}b", "characters that no token has"),
            ("--oauth-endpoint http://x --oauth-client-id c", "--oauth-client-secret"),
            ("--oauth-endpoint http://x", "--oauth-client-id"),
        ] {
            let error = token(more).unwrap_err();
            assert!(error.contains(named), "{more}: {error}");
        }
    }

    #[test]
    fn a_login_is_whole() {
        let error = sasl("--sasl-mechanism plain", Secrets::default()).unwrap_err();
        assert!(error.contains("PLAIN needs a user"), "{error}");
        assert!(cluster("--tls --command-config f").is_err());
    }
}
