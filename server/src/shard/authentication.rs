//! Frames of clients that are not authenticated, or that authenticate again. The expected frames
//! and the answers are as in Kafka's `SaslServerAuthenticator`.

use super::Shard;
use super::audit::FailedLogin;
use crate::admin;
use crate::dispatch::{Read, cluster_response, read};
use crate::net::{ConnectionId, NOT_AUTHENTICATED};
use crate::security::{Failure, Mechanism, Progress};
use muster_codec::header::RequestHeader;
use muster_codec::messages::*;
use muster_codec::{ApiKey, ClusterRequest, ErrorCode, Reader, Request, Response};
use muster_coordinator::RequestId;

impl Shard {
    /// Handles a frame of a client that is not authenticated.
    ///
    /// # Errors
    /// The reason for closing the connection at once.
    pub(super) fn authenticate(&mut self, id: ConnectionId, frame: &[u8]) -> Result<(), String> {
        let Some((authenticator, _)) = self.clients.authenticator(id) else { return Ok(()) };
        if authenticator.takes_tokens_only() {
            self.token_alone(id, frame);
            return Ok(());
        }
        let header = RequestHeader::read(&mut Reader::of_request(frame));
        let header = header.map_err(|error| error.to_string())?;
        let api = header.api().ok_or("no request, and the client is not authenticated")?;
        if !authenticator.expects(api) {
            return self.unexpected(id, &header, api);
        }
        let Read { header, request, .. } = read(frame)?;
        let Some(request) = request else {
            self.refuse_version(id, &header);
            return Ok(());
        };
        let version = header.api_version;
        let asked = self.clients.answers().begin(id, api, header.correlation_id, version);
        if let Request::SaslHandshake(body) = &request {
            self.handshake(id, asked, version, &body.mechanism);
        } else if let Request::SaslAuthenticate(body) = &request {
            self.token(id, asked, &body.auth_bytes);
        } else if let Request::ApiVersions(body) = request {
            self.versions(id, asked, version, body);
        }
        Ok(())
    }

    /// Refuses frames that are not needed to authenticate, or come in another order.
    fn unexpected(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader<'_>,
        api: ApiKey,
    ) -> Result<(), String> {
        let name = api.name();
        let error_code = ErrorCode::IllegalSaslState.code();
        let response: Option<Response<'static>> = if api == ApiKey::SaslHandshake {
            Some(admin::sasl_handshake().into())
        } else if api == ApiKey::ApiVersions {
            Some(ApiVersionsResponse { error_code, ..Default::default() }.into())
        } else {
            None
        };
        let in_exchange = self.clients.authenticator(id).is_some_and(|(it, _)| it.is_in_exchange());
        let version = header.api_version;
        match response.filter(|_| in_exchange && api.version(version).is_ok()) {
            Some(response) => {
                let asked = self.clients.answers().begin(id, api, header.correlation_id, version);
                let failure = Failure::hidden("a request in the middle of an exchange of tokens");
                self.fail_authentication(id, None, &failure, Some((asked, response)));
                Ok(())
            }
            None if self.clients.is_refused(id) => Err(NOT_AUTHENTICATED.to_owned()),
            None => Err(format!(
                "{name} came before authentication: listener {} wants clients with \
                 security.protocol={}",
                self.clients.listener_name(id),
                self.clients.listener_protocol(id).name()
            )),
        }
    }

    fn versions(
        &mut self,
        id: ConnectionId,
        asked: RequestId,
        version: i16,
        body: ApiVersionsRequest<'_>,
    ) {
        self.note_software(id, &body);
        let request = ClusterRequest::ApiVersions(body);
        let view = self.broker.view();
        let response = cluster_response(&view, version, &request);
        let mut is_error = false;
        response.errors(&mut |_| is_error = true);
        self.clients.answers().answer_now(asked, &response);
        if let Some((authenticator, _)) = self.clients.authenticator(id).filter(|_| !is_error) {
            authenticator.versions_answered();
        }
    }

    fn handshake(&mut self, id: ConnectionId, asked: RequestId, version: i16, mechanism: &str) {
        let Some((authenticator, sasl)) = self.clients.authenticator(id) else { return };
        let is_taken = authenticator.handshake(version, mechanism, sasl);
        let is_again = authenticator.is_again();
        let mechanisms = sasl.mechanisms().map(Into::into).collect();
        let error = if is_taken { ErrorCode::None } else { ErrorCode::UnsupportedSaslMechanism };
        let response = SaslHandshakeResponse { error_code: error.code(), mechanisms };
        if is_taken {
            return self.clients.answers().answer_now(asked, &response.into());
        }
        let failure = Failure::hidden("a mechanism that is not enabled");
        // As in Kafka, a client that authenticates again gets no answer.
        let answer = (!is_again).then(|| (asked, response.into()));
        self.fail_authentication(id, None, &failure, answer);
    }

    /// Handles a token in SaslAuthenticate.
    fn token(&mut self, id: ConnectionId, asked: RequestId, token: &[u8]) {
        let (answer, lifetime) = match self.take_token(id, token) {
            None => return,
            Some(Ok((answer, lifetime))) => (answer, lifetime),
            Some(Err((mechanism, words))) => {
                let response = SaslAuthenticateResponse {
                    error_code: ErrorCode::SaslAuthenticationFailed.code(),
                    error_message: Some(words.into()),
                    ..Default::default()
                };
                // As in Kafka, there is no answer if the mechanism has changed.
                let answer = mechanism.map(|_| (asked, response.into()));
                let Self { clients, commands, .. } = self;
                return clients.authentication_failed(id, answer, commands);
            }
        };
        let response = SaslAuthenticateResponse {
            auth_bytes: answer.into(),
            session_lifetime_ms: lifetime,
            ..Default::default()
        };
        self.clients.answers().answer_now(asked, &response.into());
    }

    /// Handles a token that is a frame of its own. The answer is a frame of its own, too, and a
    /// failure has no answer.
    fn token_alone(&mut self, id: ConnectionId, token: &[u8]) {
        match self.take_token(id, token) {
            None => {}
            Some(Ok((answer, _))) => {
                let answers = self.clients.answers();
                let asked = answers.begin(id, ApiKey::SaslAuthenticate, 0, 0);
                answers.answer_token(asked, &answer);
            }
            Some(Err(_)) => self.clients.authentication_failed(id, None, &mut self.commands),
        }
    }

    /// Returns the answer, and how long the client stays authenticated. If authentication fails,
    /// returns the mechanism, and the message for the client. None if the client is gone. A failure
    /// is logged once, even if the client acknowledges it with another token.
    fn take_token(
        &mut self,
        id: ConnectionId,
        token: &[u8],
    ) -> Option<Result<(Vec<u8>, i64), Failed>> {
        let Self { clients, broker, ids, times, .. } = self;
        let (authenticator, sasl) = clients.authenticator(id)?;
        let mechanism = authenticator.mechanism();
        let is_acknowledged = authenticator.refused().is_some();
        let credential =
            |name: &str, mechanism| broker.image().scram_credential(name, mechanism).cloned();
        match authenticator.token(token, sasl, credential, ids.as_mut(), times.wall) {
            Ok(Progress::Continues(answer)) => {
                if let Some(failure) = authenticator.refused().cloned() {
                    self.report_failure(id, mechanism, &failure);
                }
                Some(Ok((answer, 0)))
            }
            Ok(Progress::Done { answer, mechanism, principal, expires_at }) => {
                let expires_in = expires_at.map(|at| at.0.saturating_sub(times.wall.0).max(0));
                let lifetime = clients.authenticated(id, mechanism, principal, expires_in);
                Some(Ok((answer, lifetime)))
            }
            Err(failure) => {
                let words = authenticator.words(&failure, mechanism);
                if !is_acknowledged {
                    self.report_failure(id, mechanism, &failure);
                }
                Some(Err((mechanism, words)))
            }
        }
    }

    fn fail_authentication(
        &mut self,
        id: ConnectionId,
        mechanism: Option<Mechanism>,
        failure: &Failure,
        answer: Option<(RequestId, Response<'static>)>,
    ) {
        self.report_failure(id, mechanism, failure);
        self.clients.authentication_failed(id, answer, &mut self.commands);
    }

    fn report_failure(&mut self, id: ConnectionId, by: Option<Mechanism>, failure: &Failure) {
        let Self { clients, audit, times, .. } = self;
        let Some((host, _)) = clients.peer(id) else { return };
        let listener = clients.listener_name(id);
        let failed = FailedLogin { host: &host, listener, mechanism: by, failure };
        audit.login_failed(times.now, &failed);
    }
}

/// The mechanism, and the message for the client.
type Failed = (Option<Mechanism>, String);
