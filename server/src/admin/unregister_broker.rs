//! UnregisterBroker, which is always refused: each shard is a broker while the server runs, and no
//! other broker is registered.

use super::View;
use muster_codec::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use muster_codec::{ErrorCode, Str};

pub fn unregister_broker(
    view: &View<'_>,
    request: &UnregisterBrokerRequest,
) -> UnregisterBrokerResponse<'static> {
    let broker = request.broker_id;
    if view.brokers.all().any(|(id, _)| id == broker) {
        let words = "A shard is a broker while the server runs.";
        return refused(ErrorCode::InvalidRequest, Some(words.into()));
    }
    let words = format!("Broker ID {broker} is not currently registered");
    refused(ErrorCode::BrokerIdNotRegistered, Some(words.into()))
}

pub fn refused(error: ErrorCode, words: Option<Str<'static>>) -> UnregisterBrokerResponse<'static> {
    UnregisterBrokerResponse {
        error_code: error.code(),
        error_message: words,
        ..Default::default()
    }
}
