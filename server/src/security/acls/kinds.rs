//! The enums of an ACL, with Kafka's numbers (`ResourceType`, `PatternType`, `AclOperation`,
//! `AclPermissionType`).

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident { $($name:ident = $code:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i8)]
        pub enum $kind {
            $($name = $code,)*
        }

        impl $kind {
            pub fn by_code(code: i8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            pub fn code(self) -> i8 {
                self as i8
            }
        }
    )*};
}

kinds! {
    ResourceType {
        Topic = 2,
        Group = 3,
        Cluster = 4,
        TransactionalId = 5,
        DelegationToken = 6,
        User = 7,
    }
    /// How an ACL's name selects resources: as the name of one resource, or as a prefix of names.
    PatternType {
        Literal = 3,
        Prefixed = 4,
    }
    Operation {
        All = 2,
        Read = 3,
        Write = 4,
        Create = 5,
        Delete = 6,
        Alter = 7,
        Describe = 8,
        ClusterAction = 9,
        DescribeConfigs = 10,
        AlterConfigs = 11,
        IdempotentWrite = 12,
        CreateTokens = 13,
        DescribeTokens = 14,
        TwoPhaseCommit = 15,
    }
    Permission {
        Deny = 2,
        Allow = 3,
    }
}

impl ResourceType {
    /// The operations that exist for this type of resource, as bits
    /// (`AclEntry.supportedOperations`).
    pub fn operations(self) -> i32 {
        use Operation::*;
        let of = |operations: &[Operation]| operations.iter().map(|it| it.bit()).sum();
        match self {
            Self::Topic => {
                of(&[Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs])
            }
            Self::Group => of(&[Read, Describe, Delete, DescribeConfigs, AlterConfigs]),
            Self::Cluster => of(&[
                Create,
                ClusterAction,
                DescribeConfigs,
                AlterConfigs,
                IdempotentWrite,
                Alter,
                Describe,
            ]),
            Self::TransactionalId => of(&[Describe, Write, TwoPhaseCommit]),
            Self::DelegationToken => of(&[Describe]),
            Self::User => of(&[CreateTokens, DescribeTokens]),
        }
    }
}

impl Operation {
    /// The bit of the operation in a field of authorized operations.
    pub fn bit(self) -> i32 {
        1 << self.code()
    }

    /// The operations whose bits are set.
    pub fn of_bits(bits: i32) -> impl Iterator<Item = Self> {
        (0..i32::BITS as i8).filter(move |code| bits & 1 << code != 0).filter_map(Self::by_code)
    }

    /// Whether a client that may perform this operation may also perform the other one.
    pub(super) fn implies(self, other: Self) -> bool {
        use Operation::*;
        let implies = match other {
            Describe => matches!(self, Read | Write | Delete | Alter),
            DescribeConfigs => self == AlterConfigs,
            All | Read | Write | Create | Delete | Alter | ClusterAction | AlterConfigs
            | IdempotentWrite | CreateTokens | DescribeTokens | TwoPhaseCommit => false,
        };
        self == All || self == other || implies
    }
}
