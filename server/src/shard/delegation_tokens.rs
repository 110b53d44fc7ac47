//! Requests for delegation tokens, whose answers depend on the client.

use super::Shard;
use crate::admin;
use crate::dispatch::Call;
use crate::security::Principal;
use crate::security::acls::{Operation, Permissions, ResourceType};
use muster_codec::Response;
use muster_codec::messages::CreateDelegationTokenRequest;

impl Shard {
    pub(super) fn create_delegation_token(
        &mut self,
        call: &Call<'_>,
        body: &CreateDelegationTokenRequest<'_>,
    ) {
        let Some(requester) = self.clients.principal(call.request) else { return };
        let permissions = self.permissions_of(call.request);
        let may_create = |user: &str| {
            let allow =
                |it: &Permissions| it.allow(Operation::CreateTokens, ResourceType::User, user);
            permissions.as_deref().is_none_or(allow)
        };
        let response = admin::create_delegation_token(body, &requester, may_create);
        self.clients.answers().answer_now(call.request, &response.into());
    }

    pub(super) fn refuse_token<R: Into<Response<'static>>>(
        &mut self,
        call: &Call<'_>,
        refuse: fn(&Principal) -> R,
    ) {
        let Some(requester) = self.clients.principal(call.request) else { return };
        self.clients.answers().answer_now(call.request, &refuse(&requester).into());
    }
}
