"""As family_templates.py: templates of families of dense models."""

# Roles as headers, system messages gathered first by a filter in the loop, functions as indented JSON, a header's second
# word from a key that few messages have (as GLM-4 does it).
OBSERVATIONS = r"""[mask]<sop>{%- if tools -%}<|system|>
# 可用工具
{% for tool in tools %}
    {%- set function = tool.function if tool.get("function") else tool %}

## {{ function.name }}

{{ function | tojson(indent=4, ensure_ascii=False) }}
请使用 Json 格式。
{%- endfor %}
{%- endif -%}

{%- for message in messages %}
    {%- if message.role == 'system' %}<|system|>
{{ message.content }}
    {%- endif %}
{%- endfor %}

{%- for message in messages if message.role != 'system' %}
    {%- set role = message['role'] %}
    {%- set content = message['content'] %}
    {%- set visible = content.split('</think>')[-1].strip() if content is string else content %}
    {%- set meta = message.get("metadata", "") %}
    {%- if role == 'user' %}<|user|>
{{ content }}
    {%- elif role == 'assistant' and not meta %}<|assistant|>
{{ visible }}
        {%- for call in message.tool_calls or [] %}<|assistant|>{{ call.function.name }}
{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson(ensure_ascii=False) }}
        {%- endfor %}
    {%- elif role == 'assistant' and meta %}<|assistant|>{{ meta }}
{{ content }}
    {%- elif role in ['observation', 'tool'] %}<|observation|>
{{ content }}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}<|assistant|>
{%- if enable_thinking is defined and enable_thinking %}
<think>
{%- endif %}{% endif %}"""

# Parts sorted by their type, thinking between brackets, calls as a name and its arguments, a system message with a date
# where there is none, roles that must alternate (as Ministral 3 does it).
NAMED_ARGUMENTS = r"""{#- What is said where there is no system message. #}
{%- set usual = 'It is the ' + strftime_now("%Y-%m-%d") + '.\n\n# TOOLS\n\nUse them.' %}
{%- macro show(parts, kinds) %}
    {%- for part in parts %}
        {%- if part['type'] not in kinds %}
            {{- raise_exception('parts may be ' + kinds | join(', ')) }}
        {%- elif part['type'] == 'thinking' %}
            {{- '[THINK]' + part['thinking'] + '[/THINK]' }}
        {%- else %}
            {{- part['text'] if part['type'] == 'text' else '[IMG]' }}
        {%- endif %}
    {%- endfor %}
{%- endmacro %}
{{- bos_token + '[SYSTEM_PROMPT]' }}
{%- if messages[0]['role'] != 'system' %}
    {%- set rest = messages %}
    {{- usual }}
{%- else %}
    {%- set rest = messages[1:] %}
    {{- messages[0]['content'] if messages[0]['content'] is string else show(messages[0]['content'], ['text', 'thinking']) }}
{%- endif %}
{{- '[/SYSTEM_PROMPT]' -}}
{%- if tools is defined and tools is not none and tools|length > 0 %}
    {{- '[AVAILABLE_TOOLS]' + (tools| tojson) + '[/AVAILABLE_TOOLS]' }}
{%- endif %}
{%- set turns = namespace(count=0) %}
{%- for m in rest %}
    {%- set calls = m.tool_calls is defined and m.tool_calls is not none and m.tool_calls | length > 0 %}
    {%- if m.role == 'user' or (m.role == 'assistant' and not calls) %}
        {%- if (m['role'] == 'user') != (turns.count % 2 == 0) %}
            {{- raise_exception('users and assistants must take turns, not ' + m['role']) }}
        {%- endif %}
        {%- set turns.count = turns.count + 1 %}
    {%- endif %}
    {%- if m['role'] == 'user' %}
        {%- if m['content'] is not string and m['content'] | length == 0 %}
            {{- raise_exception('nothing is said') }}
        {%- endif %}
        {{- '[INST]' }}
        {%- if m['content'] is string %}
            {{- m['content'] }}
        {%- else %}
            {%- set parts = m['content'] | sort(attribute='type') if m['content'] | length == 2 else m['content'] %}
            {{- show(parts, ['text', 'image', 'image_url']) }}
        {%- endif %}
        {{- '[/INST]' }}
    {%- elif m['role'] == 'assistant' %}
        {%- if (m['content'] is none or m['content'] == '' or m['content']|length == 0) and not calls %}
            {{- raise_exception('neither content nor calls') }}
        {%- endif %}
        {%- if m['content'] is string and m['content'] != '' %}
            {{- m['content'] }}
        {%- elif m['content'] | length > 0 %}
            {{- show(m['content'], ['text', 'thinking']) }}
        {%- endif %}
        {%- for call in m['tool_calls'] if calls %}
            {%- set arguments = call['function']['arguments'] %}
            {%- if arguments is not string %}
                {%- set arguments = arguments|tojson|safe %}
            {%- elif arguments == '' %}
                {%- set arguments = '{}' %}
            {%- endif %}
            {{- '[TOOL_CALLS]' + call['function']['name'] + '[ARGS]' + arguments }}
        {%- endfor %}
        {{- eos_token }}
    {%- elif m['role'] == 'tool' %}
        {{- '[TOOL_RESULTS]' + m['content']|string + '[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception('no such role: ' + m['role']) }}
    {%- endif %}
{%- endfor %}"""

# Calls numbered over the whole conversation by a macro with namespaces, results that an inner loop over a slice gathers
# and breaks off, ids remembered in a list, documents as results of a call (as Command R7B does it).
ACTIONS = r"""{{ bos_token }}{%- macro number_of(id) %}
{%- set before = namespace(calls=0) %}
{%- set found = namespace(yes=false) %}
{%- for m in messages %}
    {%- if m.tool_calls %}
        {%- for call in m.tool_calls %}
            {%- if call.id == id and not found.yes -%}
                {{ before.calls }}
                {%- set found.yes = true %}
            {%- endif %}
            {%- set before.calls = before.calls + 1 %}
        {%- endfor %}
    {%- endif %}
{%- endfor %}
{%- endmacro %}
{%- macro found_by(m) -%}
{# of one call #}
  {"call": "{{ number_of(m.tool_call_id) }}", "found": {{ m.content|tojson }}}
{%- endmacro -%}
{%- macro listed(documents) -%}
<|result|>[
{% for document in documents %}
  "{{ loop.index0 }}": {{document|tojson}}{% if not loop.last %},
  {% endif %}
{% endfor %}

]<|end|>{%- endmacro -%}
{%- if messages and messages[0]['role']|lower == 'system' %}{%- set asked = messages[0]['content'] %}{% endif %}
{%- set number = namespace(next=0) %}
{%- set shown = namespace(ids=[], documents=false) %}
<|system|># Preamble
{% if tools or documents %}

[
{% if documents %}
  {"name": "documents"}{%- if tools %},{% endif %}

{% endif %}
{% for tool in tools %}
  {"name": "{{ tool['function']['name'] }}", "about": "{{tool['function']['description']}}", "takes": {{ tool['function']['parameters']|tojson }}}{%- if not loop.last %},{% endif %}

{% endfor %}
]

{% endif %}
{%- if asked %}


# Asked
{{ asked }}
{%- endif -%}
<|end|>
{%- for m in messages %}
    {%- if m.role|lower == 'system' and not (loop.first and asked)%}
<|system|>{{ m.content }}<|end|>
    {%- elif m.role|lower == 'user' %}
<|user|>{{ m.content }}<|end|>{%- if documents and not shown.documents %}{%- set shown.documents = true %}{% set number.next = number.next + 1 %}{{ listed(documents) }}{% endif %}
    {%- elif m.role|lower == 'assistant' or m.role|lower == 'chatbot' %}
<|chatbot|>{% if m.tool_calls %}<|plan|>{{m.tool_plan}}<|action|>[
    {% for call in m.tool_calls %}
  {"call": "{{ number.next }}", "name": "{{ call['function']['name'] }}", "with": {{ call['function']['arguments']|tojson }}}{% if not loop.last %},{% endif %}

    {% set number.next = number.next + 1 %}
    {% endfor %}
]<|end|>{% else %}<|response|>{{m.content}}<|end|>{% endif %}
    {% elif m.role|lower == 'tool' and m.tool_call_id not in shown.ids %}
<|result|>[
{{ found_by(m) }}
    {%- for next in messages[loop.index0 + 1:] %}
        {%- if next.role|lower == 'tool' %},
{{ found_by(next) }}
            {%- set shown.ids = shown.ids + [next.tool_call_id] %}
        {%- else %}
            {%- break %}
        {%- endif %}
    {%- endfor %}

]<|end|>
    {%- endif %}
{%- endfor %}{%- if add_generation_prompt %}<|chatbot|>{% endif %}"""
