//! UnregisterController, which is always refused: shard 0 is the controller while the server runs,
//! and no other controller is registered.

use crate::placement::CONTROLLER;
use muster_codec::messages::{UnregisterControllerRequest, UnregisterControllerResponse};
use muster_codec::{ErrorCode, Str};

pub fn unregister_controller(
    request: &UnregisterControllerRequest,
) -> UnregisterControllerResponse<'static> {
    let controller = request.controller_id;
    if u32::try_from(controller) == Ok(CONTROLLER) {
        let words = "Controller cannot unregister itself while it is active.";
        return refused(ErrorCode::InvalidRequest, Some(words.into()));
    }
    let words = format!("Controller ID {controller} is not currently registered.");
    refused(ErrorCode::ControllerIdNotRegistered, Some(words.into()))
}

pub fn refused(
    error: ErrorCode,
    words: Option<Str<'static>>,
) -> UnregisterControllerResponse<'static> {
    UnregisterControllerResponse {
        error_code: error.code(),
        error_message: words,
        ..Default::default()
    }
}
