//! Decides which requests the admin listener answers.
//!
//! - If there is a token (`admin.token`), all requests require it, except health checks and the
//!   page itself, which contains no data.
//! - Without a token, health checks are open to all. The API is served only if the listener has a
//!   loopback address. On such a listener, the API and the metrics also require that the request's
//!   `Host` is an IP address or `localhost`. Otherwise a foreign web page could read them: its
//!   owner could make the name of the page's host resolve to the loopback address. If the listener
//!   has another address, the metrics are open to all.

use super::http::Request;
use crate::config::Config;
use crate::security::Secret;
use std::net::{IpAddr, SocketAddr};

/// The rules of a listener.
#[derive(Debug)]
pub(super) struct Guard {
    token: Option<Secret>,
    is_loopback: bool,
}

/// The reason why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// The request needs the token.
    NoToken,
    /// There is no token, and the listener's address is not a loopback address, so there is no API.
    NotLocal,
    /// The host of the request is neither an IP address nor `localhost`.
    ForeignHost,
    /// A browser sent the request for a web page, which may be from any site.
    ForeignPage,
}

impl Denied {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoToken => "This needs the token of the server: Authorization: Bearer TOKEN.",
            Self::NotLocal => {
                "Without admin.token this is served on loopback only: set it, and send it as \
                 Authorization: Bearer TOKEN."
            }
            Self::ForeignHost => {
                "Without admin.token this is served to http://localhost or an address only."
            }
            Self::ForeignPage => "Without admin.token no page of a browser may ask for this.",
        }
    }
}

impl Guard {
    pub(super) fn new(config: &Config, address: SocketAddr) -> Self {
        let token = config.admin_token.as_ref().map(|token| Secret::new(token.secret()));
        Self { token, is_loopback: address.ip().is_loopback() }
    }

    /// # Errors
    /// The rules of this module deny the request.
    pub(super) fn metrics(&self, request: &Request) -> Result<(), Denied> {
        match &self.token {
            Some(token) => check(token, request),
            None if self.is_loopback && !is_local(&request.host) => Err(Denied::ForeignHost),
            None => Ok(()),
        }
    }

    /// # Errors
    /// The rules of this module deny the request.
    pub(super) fn api(&self, request: &Request) -> Result<(), Denied> {
        match &self.token {
            Some(token) => check(token, request),
            None if !self.is_loopback => Err(Denied::NotLocal),
            None if !is_local(&request.host) => Err(Denied::ForeignHost),
            None => Ok(()),
        }
    }
}

impl Guard {
    /// Checks a reset. It is not limited to loopback: a server for tests may run in a container,
    /// whose requests come from outside. A foreign web page can send the request, too, but then the
    /// browser adds the header `Origin`.
    ///
    /// # Errors
    /// The request is denied.
    pub(super) fn reset(&self, request: &Request) -> Result<(), Denied> {
        match &self.token {
            Some(token) => check(token, request),
            None if !is_local(&request.host) => Err(Denied::ForeignHost),
            None if request.has_origin => Err(Denied::ForeignPage),
            None => Ok(()),
        }
    }
}

fn check(token: &Secret, request: &Request) -> Result<(), Denied> {
    let (scheme, given) = request.authorization.split_once(' ').unwrap_or_default();
    let is_given = scheme.eq_ignore_ascii_case("bearer") && token.is(given.trim());
    if is_given { Ok(()) } else { Err(Denied::NoToken) }
}

/// Whether a host is an IP address or `localhost`, with or without a port. An empty host also
/// counts: HTTP/1.0 requests have none.
fn is_local(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !host.ends_with(']') => (name, port),
        _ => (host, "0"),
    };
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    let is_here = name.is_empty()
        || address.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok();
    is_port && is_here
}

#[cfg(test)]
mod tests {
    use super::super::http::Method;
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn request(host: &str, authorization: &str) -> Request {
        Request {
            path: "/".to_owned(),
            query: String::new(),
            host: host.to_owned(),
            authorization: authorization.to_owned(),
            has_origin: false,
            method: Method::Get,
            accept: String::new(),
        }
    }

    fn guard(token: Option<&str>, is_loopback: bool) -> Guard {
        Guard { token: token.map(Secret::new), is_loopback }
    }

    #[test]
    fn without_a_token_loopback_is_for_this_machine_alone() {
        let here = guard(None, true);
        for host in ["127.0.0.1:9190", "localhost:9190", "LocalHost", "[::1]:9190", "[::1]", ""] {
            let request = request(host, "");
            assert_eq!((here.api(&request), here.metrics(&request)), (Ok(()), Ok(())), "{host}");
        }
        for host in ["evil.example", "evil.example:9190", "localhost.evil.example", "localhost:x"] {
            assert_eq!(here.api(&request(host, "")), Err(Denied::ForeignHost), "{host}");
            assert_eq!(here.metrics(&request(host, "")), Err(Denied::ForeignHost), "{host}");
        }
        let elsewhere = guard(None, false);
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(elsewhere.api(&request("127.0.0.1", &bearer)), Err(Denied::NotLocal));
        assert_eq!(elsewhere.metrics(&request("muster", "")), Ok(()));
    }

    #[test]
    fn a_token_opens_both_and_nothing_else_does() {
        for is_loopback in [true, false] {
            let guard = guard(Some(TOKEN), is_loopback);
            for right in [format!("Bearer {TOKEN}"), format!("bearer  {TOKEN}")] {
                let request = request("muster.example", &right);
                assert_eq!((guard.api(&request), guard.metrics(&request)), (Ok(()), Ok(())));
            }
            let longer = format!("Bearer {TOKEN}0");
            for wrong in ["", TOKEN, "Bearer", "Bearer ", "Basic 0123456789abcdef", &longer] {
                let request = request("127.0.0.1", wrong);
                assert_eq!(guard.api(&request), Err(Denied::NoToken), "{wrong}");
                assert_eq!(guard.metrics(&request), Err(Denied::NoToken), "{wrong}");
            }
        }
    }
}
