//! The encoding of each version of a request, and the versions that are announced.

use super::ApiKey;
use crate::field::Version;
use crate::wire::{DecodeError, Result};
use std::ops::RangeInclusive;

impl ApiKey {
    /// The number as an API's encoding needs it.
    ///
    /// # Errors
    /// `UnsupportedVersion` if the API is not served in that version.
    pub fn version(self, number: i16) -> Result<Version> {
        if !self.versions().contains(&number) {
            let api_key = self as i16;
            return Err(DecodeError::UnsupportedVersion { api_key, version: number });
        }
        Ok(Version { number, flexible: number >= self.flexible_from() })
    }

    /// The versions that ApiVersions announces. Kafka announces Produce from 0, though it serves it
    /// from 3: librdkafka takes the absence of version 0 for a broker without produce (KIP-896).
    pub fn announced(self) -> RangeInclusive<i16> {
        let versions = self.versions();
        if self == Self::Produce { 0..=*versions.end() } else { versions }
    }

    /// Whether a request of this version has header version 2, rather than 1.
    pub fn flexible_request_header(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// Whether a response has header version 1, rather than 0. ApiVersions never has: a client
    /// reads its answer before it knows which versions the server supports (KIP-511).
    pub fn flexible_response_header(self, version: i16) -> bool {
        self != Self::ApiVersions && version >= self.flexible_from()
    }
}
