//! The codes of what a lint finds: stable, for pipelines.

use std::fmt;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weight {
    /// It is wrong.
    Wrong,
    /// It could not be verified: it may be right.
    Unverified,
}

impl Weight {
    /// A word for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Wrong => "wrong",
            Weight::Unverified => "unverified",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal $weight:ident;)+) => {
        /// The code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum LintCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl LintCode {
            /// All of them.
            pub const ALL: &[LintCode] = &[$(LintCode::$name),+];

            /// The code, as JSON has it.
            pub fn name(self) -> &'static str {
                match self {
                    $(LintCode::$name => $code,)+
                }
            }

            /// The weight of a finding with this code.
            pub fn weight(self) -> Weight {
                match self {
                    $(LintCode::$name => Weight::$weight,)+
                }
            }
        }
    };
}

codes! {
    /// The certificate is not one.
    NotACertificate = "not-a-certificate" Wrong;
    /// An SCT, or the list of them, cannot be read.
    SctUnreadable = "sct-unreadable" Wrong;
    /// An SCT is in another form than binary: base64 or JSON.
    SctIsText = "sct-is-text" Wrong;
    /// The signature of an SCT is not over this certificate, for a reason that is not known.
    SctSignature = "sct-signature" Wrong;
    /// An SCT has lost its extensions.
    SctExtensionsDropped = "sct-extensions-dropped" Wrong;
    /// The extensions of an SCT are base64.
    SctExtensionsBase64 = "sct-extensions-base64" Wrong;
    /// The leaf index of an SCT is not the one that was signed, or is none.
    SctLeafIndex = "sct-leaf-index" Wrong;
    /// An SCT itself was changed, or is of another certificate: others verify.
    SctAltered = "sct-altered" Wrong;
    /// An SCT was signed for another issuer's key.
    SctIssuerKeyHash = "sct-issuer-key-hash" Wrong;
    /// An embedded SCT was signed for a final certificate.
    SctEntryType = "sct-entry-type" Wrong;
    /// An SCT was signed for the precertificate, of which the certificate differs.
    SctForPrecertificate = "sct-for-precertificate" Wrong;
    /// The time of an SCT has not come yet.
    SctFromTheFuture = "sct-from-the-future" Wrong;
    /// The SCTs are not enough for Chrome.
    ChromePolicy = "chrome-policy" Wrong;
    /// The SCTs are not enough for Apple.
    ApplePolicy = "apple-policy" Wrong;
    /// The poison of a precertificate is not as RFC 6962 section 3.1 has it.
    Poison = "poison" Wrong;
    /// A precertificate has SCTs.
    PrecertificateScts = "precertificate-scts" Wrong;
    /// The precertificate was issued by another key than the certificate.
    IssuerDiffers = "issuer-differs" Wrong;
    /// A field before the extensions differs between precertificate and certificate.
    FieldDiffers = "field-differs" Wrong;
    /// An extension of the precertificate is not in the certificate.
    ExtensionMissing = "extension-missing" Wrong;
    /// An extension of the certificate is not in the precertificate.
    ExtensionAdded = "extension-added" Wrong;
    /// An extension differs between precertificate and certificate.
    ExtensionDiffers = "extension-differs" Wrong;
    /// The extensions are the same, in another order.
    ExtensionOrder = "extension-order" Wrong;
    /// Precertificate and certificate differ in their encoding alone.
    EncodingDiffers = "encoding-differs" Wrong;
    /// A log with the given roots would refuse the chain.
    ChainRefused = "chain-refused" Wrong;
    /// No SCT is embedded.
    NoSct = "no-sct" Unverified;
    /// There is no log list.
    NoLogList = "no-log-list" Unverified;
    /// The log list is too old for a verdict.
    OldLogList = "old-log-list" Unverified;
    /// The log of an SCT is not in the list.
    UnknownLog = "unknown-log" Unverified;
    /// The issuer is not known.
    NoIssuer = "no-issuer" Unverified;
    /// Of the issuer only certificates with another key are known.
    OtherIssuer = "other-issuer" Unverified;
    /// There are more SCTs than are looked at.
    TooManyScts = "too-many-scts" Unverified;
    /// The policy of Chrome cannot be judged.
    ChromeUnverified = "chrome-unverified" Unverified;
    /// The policy of Apple cannot be judged.
    AppleUnverified = "apple-unverified" Unverified;
}

impl fmt::Display for LintCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
