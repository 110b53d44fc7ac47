//! The tag of an operation: 64 bits that its completion returns. They name its kind and its slot.

macro_rules! kinds {
    ($($kind:ident = $number:literal,)*) => {
        /// The kind of operation that a completion belongs to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Kind {
            $($kind = $number,)*
        }

        impl Kind {
            /// The kind with this number; None for an unknown number.
            fn of(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    Accept = 1,
    Recv = 2,
    Send = 3,
    Close = 4,
    Cancel = 5,
    Wake = 6,
    Write = 7,
    Read = 8,
    Sync = 9,
    SliceRead = 10,
    SliceSend = 11,
    Writable = 12,
    RecvOnce = 13,
    RecvBulk = 14,
    ReadAhead = 15,
}

/// The bits are: kind (8 bits) | slot (24 bits) | generation of the slot (32 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) kind: Kind,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Tag {
    pub(crate) fn new(kind: Kind, index: u32, generation: u32) -> Self {
        debug_assert!(index < 1 << 24);
        Self { kind, index, generation }
    }

    pub(crate) fn encode(self) -> u64 {
        (self.kind as u64) << 56 | u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// Returns None for a kind that this crate never submits.
    pub(crate) fn decode(bits: u64) -> Option<Self> {
        let kind = Kind::of((bits >> 56) as u8)?;
        Some(Self { kind, index: (bits >> 32) as u32 & 0xff_ffff, generation: bits as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_round_trips() {
        for (kind, bits) in
            [(Kind::Accept, 1), (Kind::Recv, 2), (Kind::Sync, 9), (Kind::RecvBulk, 14)]
        {
            let tag = Tag::new(kind, 0xab_cdef, 0xdead_beef);
            assert_eq!(tag.encode() >> 56, bits);
            assert_eq!(Tag::decode(tag.encode()), Some(tag));
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert_eq!(Tag::decode(0), None);
        assert_eq!(Tag::decode(16 << 56), None);
        assert_eq!(Tag::decode(u64::MAX), None);
    }
}
