//! Keys under `operator`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

section! {
    /// Name of the organization or person.
    name: Shape = Shape::Text, "required";

    /// Contact addresses: one e-mail address or a list.
    emails: Shape = Shape::List(&Shape::Text), "required";

    /// Logs of the same operator in other processes, for `/operator.json`: the URL of each
    /// `log.v3.json`, one or a list.
    logs: Shape = Shape::List(&Shape::Text), "none";
}
