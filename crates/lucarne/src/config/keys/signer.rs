//! Keys of a signer's file.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

section! {
    /// The Unix socket. Every user with access to its directory can connect. The kernel reports the
    /// user of each connection.
    socket: Shape = Shape::Text, "required";

    /// The allowed users, by name (in `/etc/passwd`) or number.
    users: Shape = Shape::List(&Shape::Text), "required";

    /// Directory of the signer's memory: the last signed checkpoint of each log, in a file whose
    /// name is the log ID. Only one signer can use it at a time. The signer does not start if all
    /// users of the machine can write to the directory.
    memory: Shape = Shape::Text, "required";

    /// An entry for each log.
    logs: Shape = Shape::List(&Shape::Map(&log::TABLE)), "required";
}

/// Keys of each log.
pub(crate) mod log {
    use super::*;

    section! {
        #![following]

        /// The origin of the log: its submission prefix without the scheme and the last slash.
        origin: Shape = Shape::Text, "required";

        /// The key, [as in the server's
        /// configuration](../reference/configuration.md#sources-of-keys).
        secret: Shape = Shape::Secret, "this, or `module`";

        /// Sunlight's old name of `secret`.
        seed: Shape = Shape::Secret, "–";

        /// Instead of `secret`: the PKCS #11 module of the [token](#keys-in-tokens) with the key.
        module: Shape = Shape::Text, "none";

        /// The label of the token.
        token: Shape = Shape::Text, "required with `module`";

        /// The label of the key's public and private objects.
        object: Shape = Shape::Text, "required with `module`";

        /// The PIN of the user: a file of one line, or another source, as in `secret`.
        pin: Shape = Shape::Secret, "required with `module`";
    }
}
