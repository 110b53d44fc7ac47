//! The `Version` of each API version, and the versions that ApiVersions announces.

use super::ApiKey;
use crate::field::Version;
use crate::wire::{DecodeError, Result};
use std::ops::RangeInclusive;

impl ApiKey {
    /// The `Version` with which bodies of this API version are read and written.
    ///
    /// # Errors
    /// `UnsupportedVersion` if muster does not serve this version of the API.
    pub fn version(self, number: i16) -> Result<Version> {
        if !self.versions().contains(&number) {
            let api_key = self as i16;
            return Err(DecodeError::UnsupportedVersion { api_key, version: number });
        }
        Ok(Version { number, flexible: number >= self.flexible_from() })
    }

    /// The versions that ApiVersions announces. Kafka serves Produce from version 3, but announces
    /// it from 0: without version 0 librdkafka concludes that the broker does not support Produce
    /// (KIP-896).
    pub fn announced(self) -> RangeInclusive<i16> {
        let versions = self.versions();
        if self == Self::Produce { 0..=*versions.end() } else { versions }
    }

    /// Whether a request of this version has header version 2, rather than 1.
    pub fn flexible_request_header(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// Whether a response has header version 1, rather than 0. ApiVersions always has 0, because a
    /// client reads its response before it knows which versions the server supports (KIP-511).
    pub fn flexible_response_header(self, version: i16) -> bool {
        self != Self::ApiVersions && version >= self.flexible_from()
    }
}
