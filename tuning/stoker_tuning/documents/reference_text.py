"""The prose of docs/reference/rules.md."""

HEADER = """\
# Rules

<!-- Generated from tuning/stoker_tuning by `make rules`; do not edit. -->

A rule sets values for files and workloads that match its conditions. Rules, templates, frameworks, environments, and
hardware profiles share one document format. `stoker tuning` checks and explains documents without a cluster.
`stoker mount --tuning FILE` applies a file ([one machine](../guides/local-mount.md#rules)). Nodes apply objects of the
kind `TuningProfile` ([in a cluster](../guides/tuning.md#profiles-in-a-cluster))."""

FIVE_MINUTES = """\
## Write a rule

This document prefetches up to 512 images ahead of readers that read a folder in order. It keeps the folder `val` in
the cache if space is short:

```yaml
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata:
  name: mine
spec:
  rules:
    - id: images
      conditions:
        - {type: file_pattern, value: "*.jpg"}
      actions:
        - {type: prefetch, parameters: {prefetch_depth: 512}}
    - id: keep-validation
      conditions:
        - {type: file_pattern, value: "val/**"}
      actions:
        - {type: cache, parameters: {should_cache: true, cache_priority: High}}
```

[Tuning](../guides/tuning.md) has a walk-through of `stoker tuning validate`, `test`, and `explain`."""

DOCUMENT = """\
A document is YAML (core schema: `on` and `yes` are words) or JSON, in UTF-8. Unknown properties, operators, and
parameters are errors. So are duplicate keys, anchors, aliases, and tags. Bytes are numbers or quantities such as
`64Ki`, `1.5Gi`, or `2G`. A definition hides the built-in one of the same name. Fields marked * are required."""

CONDITIONS = """\
A rule applies if the weights of the matching conditions reach its `threshold`. Without conditions, it always applies.
For an unknown fact, every condition fails, except `exists` with `value: false`.

- **Short forms.** `access_pattern` without a property uses `pattern`. `file_pattern` without one uses `extension` if
  the value starts with a dot, else `glob`. A list without an operator means `in`.
- **Globs**: `*` and `?` stop at '/', `**` matches any folders, `[abc]` and `[!abc]` match one character. A glob
  without '/' matches the name, others the whole path.
- **Regular expressions** (`matches`) search the text. `^` and `$` match its start and end. The syntax is that of
  [RE2](https://github.com/google/re2/wiki/Syntax), without references and lookaround. A match takes linear time."""

ACTIONS = """\
An action sets knobs. Its `target` is `file` (the matching file), `model` (only model files), `dataset`, or
`workload`."""

PRECEDENCE = """\
## Which rule counts

Earlier layers win. Later ones fill the gaps:

1. **custom**: the document's rules and templates in use, then its settings;
2. **environment**: the selected environment, and hardware profiles that match the node;
3. **framework**: the rules of the workload's framework;
4. **built-in**.

Within a layer, higher `priority` comes first, then document order. Named sets that rules select (such as a level) fill
the remaining values: the strategy first, the level last. The level `Basic` fills them at once, so that it precedes the
rules of later layers. The level `Balanced` sets all other values."""

NAMED_SETS = """\
A level, a strategy, a cache policy, or a cache priority names values of other knobs. `auto` leaves the figure to the
fetcher, which adapts it to the reader."""

BUILT_IN = """\
The built-in documents are in `tuning/stoker_tuning/documents/builtin`."""
