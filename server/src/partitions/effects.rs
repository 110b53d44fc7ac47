//! What a call of [`Partitions`](super::Partitions) brings with it and gives back.

use super::OffsetsRead;
use crate::cluster::ClusterImage;
use muster_codec::{Response, Wall};
use muster_coordinator::RequestId;
use muster_storage::{FileOp, FileRange};

/// The surroundings of one request.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    /// What time it is: the monotonic time, and that of the wall clock.
    pub now: i64,
    pub wall: Wall,
    pub request: RequestId,
    /// The version of the request's API.
    pub version: i16,
    pub image: &'c ClusterImage,
}

/// File operations to perform, in order, and requests that are answered by now.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    pub ops: Vec<FileOp>,
    pub replies: Vec<Reply>,
    pub offsets_reads: Vec<OffsetsRead>,
    /// Why reads failed, for the log; their clients got KAFKA_STORAGE_ERROR.
    pub failed_reads: Vec<String>,
}

/// The end of one request.
#[derive(Debug)]
pub struct Reply {
    pub request: RequestId,
    pub outcome: Outcome,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Outcome {
    Send(Response<'static>),
    /// An answer whose records are parts of these files, in the order of their places; each is held
    /// until [`Partitions::release`](super::Partitions::release).
    SendFiles(Response<'static>, Vec<FileRange>),
    /// A produce with acks 0 is not answered.
    Nothing,
    /// A produce with acks 0 failed, and closing the connection is the one way to say so, as in
    /// Kafka. The reason is for the log.
    Close(String),
}

impl Effects {
    pub(super) fn send(&mut self, request: RequestId, response: impl Into<Response<'static>>) {
        self.replies.push(Reply { request, outcome: Outcome::Send(response.into()) });
    }

    pub(super) fn send_files(
        &mut self,
        request: RequestId,
        response: impl Into<Response<'static>>,
        files: Vec<FileRange>,
    ) {
        let response = response.into();
        let outcome = match files.is_empty() {
            true => Outcome::Send(response),
            false => Outcome::SendFiles(response, files),
        };
        self.replies.push(Reply { request, outcome });
    }
}
