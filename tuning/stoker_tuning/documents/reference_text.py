"""What docs/RULES.md says between its tables."""

HEADER = """\
# Rules

<!-- Generated from tuning/stoker_tuning by `make rules`; do not edit. -->

A rule says: when this file is read by that workload, do this. Rules, templates, frameworks, environments and hardware
profiles are written in documents of one format. `stoker tuning` checks them, tries them on a folder and explains what
they lead to, without a cluster. `stoker mount --tuning FILE` acts on a file of yours ([MOUNT](MOUNT.md#rules)),
nodes on objects of the kind `TuningProfile` ([in a cluster](TRAINING-AWARENESS.md#profiles-in-a-cluster)).
[ADR 43](adr/0043-tuning-documents.md) says why the format is as it is."""

FIVE_MINUTES = """\
## Write a rule in five minutes

1. Write a file, `mine.yaml`. This one fetches the shards of a WebDataset in large pieces while a job trains, and keeps
   the folder `val` in the cache whatever else goes:

```yaml
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata:
  name: mine
spec:
  rules:
    - id: shards
      priority: 100
      conditions:
        - {type: file_pattern, value: "*.tar"}
        - {type: workload_context, property: phase, operator: equals, value: Training}
      actions:
        - {type: stream, parameters: {chunk_size: 16Mi, parallel_streams: 8}}
    - id: keep-validation
      conditions:
        - {type: file_pattern, value: "val/**"}
      actions:
        - {type: cache, parameters: {should_cache: true, cache_priority: High}}
```

2. `stoker tuning validate mine.yaml` says what is wrong in it: line, column, and what may be meant.
3. `stoker tuning test mine.yaml /data --phase Training` says to how many files of a folder each rule applies; with
   `--files` it names the rules of each file.
4. `stoker tuning explain mine.yaml train/000001.tar --phase Training` says what is recommended for a file, and which
   rule gave which value and why.

What you leave out is filled up by templates that you put to use (`spec.use`), the environment that you name, the
frameworks' rules, the built-in rules, and then by the phase."""

DOCUMENT = """\
YAML (its core schema: `on` and `yes` are words, not truth values) or JSON, in UTF-8. A property, an operator or a
parameter that is not known is an error, as are keys that come twice, anchors, aliases and tags. Bytes are numbers or
quantities such as `64Ki`, `1.5Gi` or `2G`. A definition (a template, a framework, an environment, a hardware profile)
hides the built-in one of the same name."""

CONDITIONS = """\
A rule applies when the weights of the conditions that hold are at least its `threshold` of all weights; without
conditions it always applies. Of a fact that is not known no condition holds, neither `equals` nor `not_equals`, but
`exists` with `value: false`.

- **Short forms.** `access_pattern` without a property looks at `pattern`. `file_pattern` without one looks at
  `extension` where the value begins with a dot, else at `glob`. A list as the value, without an operator, means `in`.
- **Globs**: `*` and `?` stop at '/', `**` stands for any folders, `[abc]` and `[!abc]` for one character. A glob
  without '/' is compared with the name, others with the whole path.
- **Regular expressions** (`matches`) are searched for in the text; `^` and `$` are its begin and its end. There are
  `.`, `[...]`, `\\d`, `\\w`, `\\s` and their capitals (ASCII), `(...)`, `|`, and the repetitions `*`, `+`, `?`, `{2}`,
  `{2,}` and `{2,5}`. References, looking around and flags are refused: a match costs one look at each character."""

ACTIONS = """\
An action gives values to knobs. Its `target` says for what: `file` (the file that the conditions hold for), `model`
(only model files), `dataset` and `workload` (with or without a file)."""

PRECEDENCE = """\
## Which rule counts

Rules give values in this order, and a later one fills what an earlier one left open:

1. **custom**: the document's own rules and the templates that it puts to use, then its settings;
2. **environment**: the environment that it names, and the hardware profiles that fit the node;
3. **framework**: the rules of the workload's framework;
4. **built-in**.

Within each, higher `priority` goes first, then what is written first. What rules leave open is filled up by the named
sets that they name (such as a level), then by the phase, then by the sets that the phase names."""

NAMED_SETS = """\
A level, a strategy, a cache policy or a cache priority is a name for values of other knobs."""

BUILT_IN = """\
These are documents of the same format, in `tuning/stoker_tuning/documents/builtin`, to be read as examples."""
